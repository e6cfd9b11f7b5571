// The member table (members.h: incarnation of each node, and where its share of the index lies) as a repair
// reads it from all nodes and writes it to all nodes (lost nodes, case A4 in docs/protocols/nessie.md).
#pragma once

#include <algorithm>
#include <vector>

#include "nessie/lane.h"
#include "nessie/members.h"

namespace loch::nessie {

struct MemberTable {
  Word version = 0;
  std::vector<Member> of;  // members, indexed by node
};

[[nodiscard]] inline bool is_among(const std::vector<fabric::NodeId>& nodes, std::uint32_t node) {
  return std::ranges::find(nodes, node) != nodes.end();
}

struct Survey {
  // The newest member table (incarnations of nodes, places of shares of the index) that any node has; an
  // interrupted declaration of loss may have reached only some nodes.
  MemberTable members;
  std::vector<bool> is_up;  // indexed by node: whether the node answers
  // indexed by node: whether its member table (nodes' incarnations) has version 0, as in fresh memory
  std::vector<bool> is_new;
};
[[nodiscard]] coro::Task<Survey> survey_members(Lane* lane);

// Writes the member table to every node: first the members, then the version by which the node's workers
// notice the change. A lost node that accepts the write is up from then on (Survey::is_up) and must get every
// later table too, or it would never learn where the shares of the index lie. Returns false if the write
// failed on a node that is up or was not lost.
[[nodiscard]] coro::Task<bool> tell_members(Lane* lane, std::vector<fabric::NodeId> lost, Survey* survey);

}  // namespace loch::nessie
