// Writes and reads greetings, items and the cards by which launcher processes find each other.
#include "common/cluster/tcp_frames.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "common/base/split.h"

namespace loch::cluster {
namespace {

constexpr std::string_view lanes = "kmu";
constexpr std::size_t addresses_max = 64, text_bytes_max = 4096;
constexpr std::string_view card_version = "1";

std::string bytes_of(std::uint32_t number) {
  std::string out(sizeof number, '\0');
  std::memcpy(out.data(), &number, sizeof number);
  return out;
}

std::uint32_t number_at(std::string_view bytes) {
  std::uint32_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

std::string to_hex(std::string_view bytes) {
  std::string out;
  for (const char each : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(each));
  return out;
}

std::optional<std::string> from_hex(std::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string out;
  for (std::size_t at = 0; at < digits.size(); at += 2) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(digits.data() + at, digits.data() + at + 2, value, 16);
    if (error != std::errc{} || end != digits.data() + at + 2) return std::nullopt;
    out += static_cast<char>(value);
  }
  return out;
}

}  // namespace

std::string greeting(const Token& token, std::uint32_t from) {
  std::string out(tcp_magic);
  out.append(reinterpret_cast<const char*>(token.data()), token.size());
  return out + bytes_of(from);
}

std::optional<std::uint32_t> parse_greeting(std::string_view bytes, const Token& token) {
  if (bytes.size() != greeting_bytes || !bytes.starts_with(tcp_magic)) return std::nullopt;
  bytes.remove_prefix(tcp_magic.size());
  if (CRYPTO_memcmp(bytes.data(), token.data(), token.size()) != 0) return std::nullopt;
  return number_at(bytes.substr(token.size()));
}

std::string item_header(char lane, std::size_t bytes) {
  return bytes_of(static_cast<std::uint32_t>(bytes)) + lane;
}

Result<std::optional<std::pair<char, std::string>>> ItemReader::next() {
  const std::string_view rest = std::string_view(held_).substr(at_);
  if (rest.size() >= item_header_bytes) {
    const std::size_t bytes = number_at(rest);
    const char lane = rest[item_header_bytes - 1];
    if (bytes > item_bytes_max || !lanes.contains(lane))
      return fail(ErrorCode::corrupt, "no item begins here");
    if (rest.size() - item_header_bytes >= bytes) {
      at_ += item_header_bytes + bytes;
      return std::pair(lane, std::string(rest.substr(item_header_bytes, bytes)));
    }
  }
  held_.erase(0, at_);
  at_ = 0;
  return std::optional<std::pair<char, std::string>>();
}

std::string to_text(const Card& card) {
  const std::string_view token(reinterpret_cast<const char*>(card.token.data()), card.token.size());
  return fmt::format("{} {} {} {} {} {}", card_version, card.network, card.port, to_hex(token),
                     fmt::join(card.addresses, ","), to_hex(card.text));
}

Result<Card> parse_card(std::string_view given) {
  const auto refused = [] { return fail(ErrorCode::corrupt, "a rank's card is malformed"); };
  const std::vector<std::string_view> parts = split(given, ' ');
  if (parts.size() != 6 || parts[0] != card_version) return refused();
  Card card;
  card.network = parts[1];
  const auto [end, error] = std::from_chars(parts[2].data(), parts[2].data() + parts[2].size(), card.port);
  const auto token = from_hex(parts[3]);
  const auto text = from_hex(parts[5]);
  if (error != std::errc{} || end != parts[2].data() + parts[2].size() || !token ||
      token->size() != card.token.size() || !text || text->size() > text_bytes_max)
    return refused();
  std::ranges::copy(*token, card.token.begin());
  card.text = *text;
  for (const std::string_view each : split(parts[4], ',')) {
    if (!each.empty()) card.addresses.emplace_back(each);
  }
  if (card.addresses.size() > addresses_max) return refused();
  return card;
}

}  // namespace loch::cluster
