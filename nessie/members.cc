// What this node's copy of the members says: where each share of the index lies, and which words name memory
// that was lost.
#include "nessie/members.h"

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "nessie/session.h"

namespace loch::nessie {

void Session::look_at_members() {
  const Word version = fabric::load_word(node_.members->at(0));
  if (version == own_.members_seen) return;
  LOCH_PROBE("nessie.members-changed");
  for (std::uint32_t i = 0; i < own_.peers.size(); ++i) {
    const Member member = Member::unpack(fabric::load_word(node_.members->at(8 * (1 + i))), i);
    own_.peers[i].incarnation = member.incarnation % incarnations;
    IndexShare& share = own_.shares[i];
    const auto host = static_cast<fabric::NodeId>(member.host);
    const Result<fabric::RemoteRegion> index = store_.fabric().lookup(host, index_region);
    share.is_void = member.is_void || !index.has_value();
    if (index.has_value()) share.index = *index;
    share.base = member.area * settings_.share_bytes();
  }
  own_.has_losses = true;
  own_.members_seen = version;
  own_.table.begin_incarnation(own_.peers[node_.node].incarnation);
}

bool Session::names_lost_memory(Word word) const {
  const bool names_an_entry = !settings_.format.is_empty(word) || settings_.format.is_tagged(word);
  return names_an_entry && is_lost(settings_.format.entry(word));
}

}  // namespace loch::nessie
