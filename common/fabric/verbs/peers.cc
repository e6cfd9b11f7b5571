// Records the addresses and regions of each node, and gives the workers the table of the UD queue pairs that
// may send to them.
#include "common/fabric/verbs/peers.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace loch::fabric::verbs {

Result<> Peers::put(NodeRecord record) {
  const Device& device = *shared_->device;
  auto peer = std::make_unique<Peer>();
  peer->record = std::move(record);
  ibv_ah_attr path = path_to(device.port(), peer->record.address);
  Owned<ibv_ah, ibv_destroy_ah> handle(ibv_create_ah(device.pd(), &path));
  if (handle == nullptr) {
    return fail(ErrorCode::unavailable, fmt::format("verbs: node {} cannot be addressed as {} from {}: {}",
                                                    peer->record.node, to_text(peer->record.address.gid),
                                                    to_text(device.address().gid), std::strerror(errno)));
  }
  peer->address_handle = handle.get();
  for (const WorkerRecord& worker : peer->record.workers) {
    if (peer->datagram_qpn.size() <= worker.index) peer->datagram_qpn.resize(worker.index + 1u);
    peer->datagram_qpn[worker.index] = worker.ud_qpn;
  }
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
  std::vector<DatagramSources::Sender> senders;
  for (const auto& peer : shared_->peers) {
    if (peer == nullptr) continue;
    const NodeRecord& record = peer.load()->record;
    for (const WorkerRecord& worker : record.workers) {
      DatagramSources::Sender sender{
          worker.ud_qpn, record.address.lid, record.address.gid, {record.node, worker.index}};
      senders.push_back(sender);
      for (const std::uint32_t qpn : worker.ud_also) {
        sender.qpn = qpn;
        senders.push_back(sender);
      }
    }
  }
  senders_.push_back(std::make_unique<DatagramSources>());
  senders_.back()->set(std::move(senders));
  shared_->datagram_sources.store(senders_.back().get(), std::memory_order_release);
}

}  // namespace loch::fabric::verbs
