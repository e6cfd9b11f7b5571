// Initialises a Lane (the resources of one outstanding operation of a client worker): gives it its part of
// the node's buffers, and registers the entries of its current operation with the worker.
#include "nessie/lane.h"

#include <algorithm>

namespace loch::nessie {

Lane::Lane(NessieStore& of, fabric::Worker& by, std::uint32_t number)
    : store(of),
      settings(of.settings()),
      node(of.local(by.node())),
      own(*node.workers.at(by.index())),
      worker(by),
      landing(number < settings.lanes() ? node.landing : node.scan),
      landing_base(number < settings.lanes() ? number * settings.entry.stride()
                                             : settings.header_place(number)),
      words_base(std::uint64_t{number} * lane_words * 8),
      key(settings.entry.key_size()) {
  LOCH_CHECK_LT(number, settings.lanes_with_repairs());
  own.in_hand.push_back(&in_hand);
}

Lane::~Lane() { std::erase(own.in_hand, &in_hand); }

bool InHand::has(const EntryId& id) const {
  if (is_writing && (fresh == id || linked == id)) return true;
  return std::find(copies.begin(), copies.begin() + moves, id) != copies.begin() + moves;
}

}  // namespace loch::nessie
