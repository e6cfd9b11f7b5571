// The schedule of pings between all pairs of nodes: a round-robin tournament, in each round of which disjoint
// pairs ping each other at once.
#pragma once

#include <cstdint>
#include <optional>

#include "common/fabric/region.h"

namespace loch::fabric::ping {

// Number of rounds in which each of `nodes` nodes meets every other one once.
[[nodiscard]] constexpr std::uint32_t rounds_of(std::uint32_t nodes) {
  return nodes < 2 ? 0 : nodes % 2 == 0 ? nodes - 1 : nodes;
}

// The partner of a node in a round, counted from 0; none if the node pauses, as one node does in each round
// of an odd number of nodes. The circle method: the last of an even number of players keeps its seat, and all
// others move on by one seat a round.
[[nodiscard]] constexpr std::optional<NodeId> partner_of(std::uint32_t nodes, std::uint32_t round,
                                                         NodeId node) {
  const std::uint32_t seats = nodes + nodes % 2, last = seats - 1;
  // Modulo `last`, players a and b below `last` meet in round r if a + b = 2r; player r meets player `last`.
  std::uint32_t other = 0;
  if (node == last) {
    other = round;
  } else if (node == round) {
    other = last;
  } else {
    other = (2 * round + last - node) % last;
  }
  if (other >= nodes) return std::nullopt;
  return static_cast<NodeId>(other);
}

}  // namespace loch::fabric::ping
