// How a client reaches the tables of other nodes: by connections, by the keys of their regions, and by this
// node's copy of the member table (members.h), which tells where the shares of the index lie and which nodes'
// memory was lost (case A4 in docs/protocols/nessie.md).
#pragma once

#include "common/fabric/memory.h"
#include "nessie/lane.h"

namespace loch::nessie {

// Connects to the peer again if necessary, looks up its regions if the connection is new, and reads this
// node's copy of the member table (nodes' incarnations) again if it changed. Returns false if the peer did
// not answer within nessie.reconnect-timeout.
[[nodiscard]] coro::Task<bool> reconnect(Lane* lane, fabric::NodeId peer);

// Reads this node's copy of the member table (nodes' incarnations) again, which has the version `version`.
void read_members(Lane& lane, Word version);
// Does so if the copy has changed since this worker last read it.
inline void look_at_members(Lane& lane) {
  const Word version = fabric::load_word(lane.node.members->at(0));
  if (version != lane.own.members_seen) [[unlikely]]
    read_members(lane, version);
}

// Whether the memory that held the entry was declared lost, so that the entry no longer exists.
[[nodiscard]] inline bool is_lost(const Lane& lane, const EntryId& id) {
  return is_older(id.incarnation, lane.own.peers[id.node].incarnation);
}
// Whether the word (occupied, or EMPTY with a tag that names the copy made by a MIGRATE) names an entry whose
// memory was declared lost.
[[nodiscard]] bool names_lost_memory(const Lane& lane, Word word);

}  // namespace loch::nessie
