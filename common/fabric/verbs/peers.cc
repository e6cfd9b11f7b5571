// Records the addresses and regions of each node, and gives the workers the table of the UD queue pairs that
// may send to them.
#include "common/fabric/verbs/peers.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace loch::fabric::verbs {

Result<> Peers::put(NodeRecord record) {
  const std::size_t rails = shared_->rails.size();
  if (record.addresses.size() != rails)
    return fail(ErrorCode::corrupt, fmt::format("node {} has {} rails and this process {}", record.node,
                                                record.addresses.size(), rails));
  const Device& device = shared_->device_to(record.node);
  auto peer = std::make_unique<Peer>();
  peer->record = std::move(record);
  peer->address = peer->record.addresses[shared_->rail_of(peer->record.node)];
  ibv_ah_attr path = path_to(device.port(), peer->address);
  Owned<ibv_ah, ibv_destroy_ah> handle(ibv_create_ah(device.pd(), &path));
  if (handle == nullptr) {
    return fail(ErrorCode::unavailable,
                fmt::format("verbs: node {} cannot be addressed as {} from {}: {}", peer->record.node,
                            to_text(peer->address.gid), to_text(device.address().gid), std::strerror(errno)));
  }
  peer->address_handle = handle.get();
  for (const WorkerRecord& worker : peer->record.workers) {
    if (peer->datagram_qpn.size() <= worker.index) peer->datagram_qpn.resize(worker.index + 1u);
    peer->datagram_qpn[worker.index] = worker.ud_qpn;
  }
  peer->workers = static_cast<std::uint32_t>(peer->datagram_qpn.size());
  peer->addresses = std::make_unique<std::uint64_t[]>(peer->record.regions.size());
  for (const RegionRecord& region : peer->record.regions) peer->addresses[peer->regions++] = region.address;
  address_handles_.push_back(std::move(handle));
  const NodeId node = peer->record.node;
  shared_->peers[node].store(peer.get(), std::memory_order_release);
  shared_->incarnations[node].store(peer->record.incarnation, std::memory_order_release);
  peers_.push_back(std::move(peer));
  return {};
}

void Peers::publish_senders() {
  std::vector<std::vector<DatagramSources::Sender>> by_rail(shared_->rails.size());
  for (const auto& peer : shared_->peers) {
    if (peer == nullptr) continue;
    const NodeRecord& record = peer.load()->record;
    const auto add = [&](std::uint32_t rail, std::uint32_t qpn, std::uint16_t worker) {
      if (rail >= by_rail.size()) return;  // another process named a rail that no process has
      const Address& address = record.addresses[rail];
      by_rail[rail].push_back({qpn, address.lid, address.gid, {record.node, worker}});
    };
    for (const WorkerRecord& worker : record.workers) {
      add(shared_->rail_of(record.node), worker.ud_qpn, worker.index);
      for (const DatagramSender& sender : worker.ud_also) add(sender.rail, sender.qpn, worker.index);
    }
  }
  for (std::size_t rail = 0; rail < by_rail.size(); ++rail) {
    senders_.push_back(std::make_unique<DatagramSources>());
    senders_.back()->set(std::move(by_rail[rail]));
    shared_->datagram_sources[rail].store(senders_.back().get(), std::memory_order_release);
  }
}

}  // namespace loch::fabric::verbs
