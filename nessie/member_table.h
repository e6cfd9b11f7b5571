// The table of members (members.h) as one repair reads it from all nodes and tells it to all (A4).
#pragma once

#include <algorithm>
#include <vector>

#include "nessie/lane.h"
#include "nessie/members.h"

namespace loch::nessie {

struct MemberTable {
  Word version = 0;
  std::vector<Member> of;  // by node
};

[[nodiscard]] inline bool is_among(const std::vector<fabric::NodeId>& nodes, std::uint32_t node) {
  return std::ranges::find(nodes, node) != nodes.end();
}

struct Survey {
  MemberTable
      members;  // the newest that any node has: a declaration that was interrupted has told some of them
  std::vector<bool> is_up;   // by node: it answers
  std::vector<bool> is_new;  // a node with fresh memory: it was told nothing, while others were
};
[[nodiscard]] coro::Task<Survey> survey_members(Lane* lane);

// Every node that is up gets the words, and then the version by which its workers notice. A lost node that
// can be told is up: from then on it takes part, and has to be told the end as well, or it would never learn
// where the shares lie. False: a node that is up, or was not lost, could not be told.
[[nodiscard]] coro::Task<bool> tell_members(Lane* lane, std::vector<fabric::NodeId> lost, Survey* survey);

}  // namespace loch::nessie
