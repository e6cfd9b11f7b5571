// The member table, of which every node has a copy in its own memory: one word per node. It is written by
// the client that declares a node lost (declare.cc), and read by the node's own workers at the start of
// each operation.
//
//   word 0      version: grows with every declaration; 0 is the initial table
//   word 1 + n  0            8      16                       32          62      63
//               | host     | area | incarnation            | 0         | void | watermark |
//
// host and area tell where node n's share of the index lies: in area 0 of node n itself, or in an area of
// another node that is reserved for shares of lost nodes. `void`: the share lies on no node yet, and
// operations that need it end in an error. The incarnation is that of node n's memory: index words that
// name an older one name nothing (word.h).
#pragma once

#include <cstdint>

#include "nessie/word.h"

namespace loch::nessie {

constexpr std::string_view members_region = "nessie.members";

struct Member {
  std::uint32_t host = 0;
  std::uint32_t area = 0;
  std::uint32_t incarnation = 0;  // full count of incarnations; an index word has it modulo `incarnations`
  bool is_void = false;

  // The initial state of a member, which was never declared lost.
  [[nodiscard]] static constexpr Member initial(std::uint32_t node) { return {node, 0, 0, false}; }
  [[nodiscard]] constexpr Word pack() const {
    return watermark_bit | (is_void ? Word{1} << 62 : 0) | Word{incarnation & 0xFFFF} << 16 |
           Word{area & 0xFF} << 8 | (host & 0xFF);
  }
  [[nodiscard]] static constexpr Member unpack(Word word, std::uint32_t node) {
    if ((word & watermark_bit) == 0) return initial(node);
    return {static_cast<std::uint32_t>(word & 0xFF), static_cast<std::uint32_t>(word >> 8 & 0xFF),
            static_cast<std::uint32_t>(word >> 16 & 0xFFFF), (word >> 62 & 1) != 0};
  }
  friend bool operator==(const Member&, const Member&) = default;
};
static_assert(Member::unpack(Member{7, 2, 300, true}.pack(), 1) == Member{7, 2, 300, true});
static_assert(Member::unpack(0, 5) == Member::initial(5));

}  // namespace loch::nessie
