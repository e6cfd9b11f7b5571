// Signs messages between ranks, verifies messages that arrive, and parses their payloads.
#include "common/cluster/message.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "common/base/check.h"

namespace loch::cluster {
namespace {

static_assert(std::endian::native == std::endian::little, "messages are little-endian");

template <typename T>
void append(std::string& out, const T& value) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
  out.append(bytes.data(), bytes.size());
}

// Removes a T from the front of `in`, which must have at least sizeof(T) bytes.
template <typename T>
T take(std::string_view& in) {
  T value;
  std::memcpy(&value, in.data(), sizeof value);
  in.remove_prefix(sizeof value);
  return value;
}

using Tag = std::array<std::uint8_t, tag_bytes>;

Tag tag_of(const Secret& secret, std::string_view bytes) {
  Tag tag;
  unsigned length = 0;
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto* made = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), data, bytes.size(),
                          tag.data(), &length);
  LOCH_CHECK(made != nullptr && length == tag.size(), "libcrypto has no HMAC-SHA256");
  return tag;
}

bool is_kind(std::uint16_t kind) {
  return kind >= static_cast<std::uint16_t>(Kind::hello) && kind <= static_cast<std::uint16_t>(Kind::back);
}

}  // namespace

Result<Secret> draw_secret() {
  Secret secret;
  if (getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    return fail(ErrorCode::internal, fmt::format("getrandom: {}", std::strerror(errno)));
  }
  return secret;
}

const char* name(Refusal refusal) {
  constexpr const char* names[refusals] = {"size", "magic", "version", "kind", "rank", "tag", "replay"};
  return names[static_cast<std::size_t>(refusal)];
}

std::string Sealer::seal(const Message& message) {
  LOCH_CHECK_LE(message.payload.size(), payload_bytes_max);
  LOCH_CHECK_LT(message.to, sent_.size());
  const MessageHeader header = {.magic = message_magic,
                                .version = message_version,
                                .kind = static_cast<std::uint16_t>(message.kind),
                                .from = message.from,
                                .to = message.to,
                                .sequence = ++sent_[message.to].of(message.kind),
                                .payload_bytes = static_cast<std::uint32_t>(message.payload.size()),
                                .incarnation = message.incarnation};
  std::string out;
  out.reserve(sizeof header + message.payload.size() + tag_bytes);
  append(out, header);
  out += message.payload;
  append(out, tag_of(secret_, out));
  return out;
}

std::expected<Message, Refusal> Opener::open(std::string_view bytes, std::uint32_t from) {
  auto message = check(bytes, from);
  if (!message) ++refused_[static_cast<std::size_t>(message.error())];
  return message;
}

std::expected<Message, Refusal> Opener::check(std::string_view bytes, std::uint32_t from) {
  if (bytes.size() < sizeof(MessageHeader) + tag_bytes || bytes.size() > message_bytes_max)
    return std::unexpected(Refusal::size);
  std::string_view rest = bytes;
  const auto header = take<MessageHeader>(rest);
  if (header.magic != message_magic) return std::unexpected(Refusal::magic);
  if (header.version != message_version) return std::unexpected(Refusal::version);
  if (header.payload_bytes != rest.size() - tag_bytes) return std::unexpected(Refusal::size);
  if (!is_kind(header.kind)) return std::unexpected(Refusal::kind);
  if (header.from != from || header.from >= seen_.size() || header.from == self_ || header.to != self_)
    return std::unexpected(Refusal::rank);
  const std::string_view signed_bytes = bytes.substr(0, bytes.size() - tag_bytes);
  const Tag expected = tag_of(secret_, signed_bytes);
  if (CRYPTO_memcmp(expected.data(), bytes.data() + signed_bytes.size(), tag_bytes) != 0)
    return std::unexpected(Refusal::tag);
  std::uint64_t& seen = seen_[from].of(static_cast<Kind>(header.kind));
  if (header.sequence <= seen) return std::unexpected(Refusal::replay);
  seen = header.sequence;
  return Message{static_cast<Kind>(header.kind), header.from, header.to,
                 std::string(rest.substr(0, header.payload_bytes)), header.incarnation};
}

const char* name(Meeting meeting) {
  switch (meeting) {
    case Meeting::all_gather:
      return "all_gather";
    case Meeting::gather:
      return "gather";
    case Meeting::barrier:
      return "barrier";
  }
  return "?";
}

std::string to_bytes(const Part& part) {
  LOCH_CHECK_LE(part.what.size(), what_bytes_max);
  std::string out;
  append(out, part.number);
  append(out, part.meeting);
  append(out, static_cast<std::uint32_t>(part.what.size()));
  out += part.what;
  out += part.text;
  return out;
}

Result<Part> parse_part(std::string_view payload) {
  constexpr std::size_t fixed = 8 + 4 + 4;
  if (payload.size() < fixed) return fail(ErrorCode::corrupt, "a part of a meeting is too short");
  Part part;
  part.number = take<std::uint64_t>(payload);
  const auto meeting = take<std::uint32_t>(payload);
  const auto what_bytes = take<std::uint32_t>(payload);
  if (meeting < static_cast<std::uint32_t>(Meeting::all_gather) ||
      meeting > static_cast<std::uint32_t>(Meeting::barrier))
    return fail(ErrorCode::corrupt, fmt::format("a part of an unknown meeting {}", meeting));
  if (what_bytes > what_bytes_max || what_bytes > payload.size())
    return fail(ErrorCode::corrupt, fmt::format("a meeting's name of {} bytes", what_bytes));
  part.meeting = static_cast<Meeting>(meeting);
  part.what = payload.substr(0, what_bytes);
  part.text = payload.substr(what_bytes);
  return part;
}

std::string to_bytes(const Notice& notice) {
  std::string out;
  append(out, notice.rank);
  append(out, notice.fate);
  append(out, notice.detail);
  return out;
}

Result<Notice> parse_notice(std::string_view payload, std::uint32_t ranks) {
  if (payload.size() != 12) return fail(ErrorCode::corrupt, "a notice is 12 bytes long");
  Notice notice;
  notice.rank = take<std::uint32_t>(payload);
  const auto fate = take<std::uint32_t>(payload);
  notice.detail = take<std::uint32_t>(payload);
  if (notice.rank >= ranks) return fail(ErrorCode::corrupt, fmt::format("a notice of rank {}", notice.rank));
  if (fate < static_cast<std::uint32_t>(Fate::ended) || fate > static_cast<std::uint32_t>(Fate::back))
    return fail(ErrorCode::corrupt, fmt::format("a notice of an unknown fate {}", fate));
  notice.fate = static_cast<Fate>(fate);
  return notice;
}

std::string clean_host(std::string_view name) {
  std::string out(name.substr(0, host_bytes_max));
  std::ranges::replace_if(out, [](char c) { return c <= ' ' || c > '~'; }, '?');
  return out.empty() ? "?" : out;
}

}  // namespace loch::cluster
