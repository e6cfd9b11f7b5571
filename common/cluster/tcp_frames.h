// What two launcher processes write to each other on a TCP connection (tcp_board.h). The one that connects
// begins with a greeting, which the other answers with a word; then both send items.
//
//   greeting: | magic 8 | token of the one that is greeted 16 | rank of the one that greets 4 |
//   answer:   | magic 8 |
//   item:     | bytes 4 | lane 1 | bytes of the item |
//
// Numbers are in little-endian order, sizes in bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/cluster/board.h"

namespace loch::cluster {

// What only the ranks of a launch know of each other; it keeps strangers from taking a rank's place.
using Token = std::array<std::uint8_t, 16>;

inline constexpr std::string_view tcp_magic = "loch-tcp";
inline constexpr std::size_t greeting_bytes = tcp_magic.size() + sizeof(Token) + sizeof(std::uint32_t);
inline constexpr std::size_t item_header_bytes = sizeof(std::uint32_t) + 1;

[[nodiscard]] std::string greeting(const Token& token, std::uint32_t from);
// The rank that greets; nothing if the `greeting_bytes` bytes are no greeting with this token.
[[nodiscard]] std::optional<std::uint32_t> parse_greeting(std::string_view bytes, const Token& token);

[[nodiscard]] std::string item_header(char lane, std::size_t bytes);

// Splits a stream of bytes into items.
class ItemReader {
 public:
  void feed(std::string_view bytes) { held_ += bytes; }
  // Returns the next whole item with its lane, an empty optional if more bytes are needed, or the error
  // `corrupt` if no item begins here; the stream is then unusable.
  [[nodiscard]] Result<std::optional<std::pair<char, std::string>>> next();

 private:
  std::string held_;
  std::size_t at_ = 0;  // number of bytes of held_ that next() has consumed
};

// What a rank shows on the bulletin: where it listens, and the text that its board posts for all ranks.
struct Card {
  std::string network;  // network_name()
  std::uint16_t port = 0;
  Token token{};
  std::vector<std::string> addresses;
  std::string text;
  bool operator==(const Card&) const = default;
};
[[nodiscard]] std::string to_text(const Card& card);
[[nodiscard]] Result<Card> parse_card(std::string_view text);

}  // namespace loch::cluster
