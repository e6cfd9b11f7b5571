// How a lane reaches the tables of other nodes: connections, the keys of their regions, and what this node's
// copy of the members (members.h) says about where the shares of the index lie and which memory was lost
// (A4).
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// Connects to the peer again if need be, and looks its regions up if the connection is a new one. False: the
// peer did not answer within nessie.reconnect-timeout. Afterwards the members are as this node knows them.
[[nodiscard]] coro::Task<bool> reconnect(Lane* lane, fabric::NodeId peer);

// Takes over what the node's copy of the members says, if it has changed since this worker last looked.
void look_at_members(Lane& lane);

// Whether the entry's memory was declared lost: its word then has no owner.
[[nodiscard]] inline bool is_lost(const Lane& lane, const EntryId& id) {
  return is_older(id.incarnation, lane.own.peers[id.node].incarnation);
}
// is_lost() of the entry that a slot's word, occupied or tagged, names.
[[nodiscard]] bool names_lost_memory(const Lane& lane, Word word);

}  // namespace loch::nessie
