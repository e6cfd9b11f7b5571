// Fuzzes the parsers of the control plane; the first byte chooses the parser. No message is accepted that
// was not signed with the secret, every refusal is counted, and whatever is accepted is unchanged by
// formatting and parsing it again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/cluster/frame.h"
#include "common/cluster/message.h"
#include "common/cluster/tcp_frames.h"

namespace {

using namespace loch::cluster;

constexpr std::uint32_t ranks = 4, self = 1;

Secret known_secret() {
  Secret secret;
  secret.fill(7);
  return secret;
}

// Opens the bytes as a message, which is refused unless its tag is valid; then opens a message with a
// valid tag and the bytes as payload, which must be accepted.
void read_message(std::string_view bytes) {
  Opener opener(known_secret(), self, ranks);
  std::uint64_t refused = 0;
  for (const std::uint32_t from : {0U, 2U}) {
    const auto message = opener.open(bytes, from);
    if (!message) {
      ++refused;
      continue;
    }
    LOCH_CHECK(message->from == from && message->to == self);
    LOCH_CHECK(opener.open(bytes, from).error() == Refusal::replay);
    ++refused;
  }
  std::uint64_t counted = 0;
  for (const std::uint64_t each : opener.refused()) counted += each;
  LOCH_CHECK_EQ(counted, refused);
  Sealer sealer(known_secret(), ranks);
  (void)sealer.seal({Kind::hello, 3, self, "the tests have signed the first one"});
  const auto again = opener.open(sealer.seal({Kind::text, 3, self, std::string(bytes)}), 3);
  LOCH_CHECK(again.has_value() && again->payload == bytes);
}

void read_part(std::string_view bytes) {
  const auto part = parse_part(bytes);
  if (!part) return;
  LOCH_CHECK(to_bytes(*part) == bytes);
}

void read_notice(std::string_view bytes) {
  const auto notice = parse_notice(bytes, ranks);
  if (!notice) return;
  LOCH_CHECK(notice->rank < ranks);
  LOCH_CHECK(to_bytes(*notice) == bytes);
}

// Parsing must give the same frames whether the bytes arrive one by one or all at once.
void read_frames(std::string_view bytes) {
  std::vector<std::string> outcomes;
  for (const std::size_t piece : {std::size_t{1}, bytes.size() + 1}) {
    FrameReader reader;
    std::string& out = outcomes.emplace_back();
    bool is_broken = false;
    for (std::size_t at = 0; at < bytes.size() && !is_broken; at += piece) {
      reader.feed(bytes.substr(at, piece));
      for (;;) {
        const auto frame = reader.next();
        is_broken = !frame.has_value();
        if (is_broken || !*frame) break;
        out += to_bytes(**frame);
      }
    }
    out += is_broken ? "broken" : "whole";
  }
  LOCH_CHECK(outcomes[0] == outcomes[1]);
}

// As with frames, how the bytes are cut must not matter.
void read_items(std::string_view bytes) {
  std::vector<std::string> outcomes;
  for (const std::size_t piece : {std::size_t{1}, bytes.size() + 1}) {
    ItemReader reader;
    std::string& out = outcomes.emplace_back();
    bool is_broken = false;
    for (std::size_t at = 0; at < bytes.size() && !is_broken; at += piece) {
      reader.feed(bytes.substr(at, piece));
      for (;;) {
        const auto item = reader.next();
        is_broken = !item.has_value();
        if (is_broken || !*item) break;
        out += item_header((*item)->first, (*item)->second.size()) + (*item)->second;
      }
    }
    LOCH_CHECK(bytes.starts_with(out));
    out += is_broken ? "broken" : "whole";
  }
  LOCH_CHECK(outcomes[0] == outcomes[1]);
}

void read_card(std::string_view bytes) {
  const auto card = parse_card(bytes);
  if (!card) return;
  LOCH_CHECK(parse_card(to_text(*card)) == *card);
}

void read_hosts(std::string_view bytes) {
  const auto hosts = parse_hosts(bytes);
  if (!hosts) return;
  LOCH_CHECK(parse_hosts(to_bytes(*hosts)) == *hosts);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 7) {
    case 0:
      read_message(rest);
      break;
    case 1:
      read_part(rest);
      break;
    case 2:
      read_notice(rest);
      break;
    case 3:
      read_frames(rest);
      break;
    case 4:
      read_hosts(rest);
      break;
    case 5:
      read_items(rest);
      break;
    case 6:
      read_card(rest);
      break;
  }
  return 0;
}
