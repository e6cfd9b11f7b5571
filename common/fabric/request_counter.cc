// Adds a work request to the counts of its worker, its peer and its operation.
#include "common/fabric/request_counter.h"

namespace loch::fabric {
namespace {

// For each verb, in the order of the enum Verb, the member of OpStats that counts its requests.
constexpr std::array<std::uint32_t OpStats::*, RequestCounter::verbs> counts{
    &OpStats::read, &OpStats::write, &OpStats::cas, &OpStats::faa, &OpStats::send, &OpStats::recv};
static_assert(static_cast<std::size_t>(Verb::read) == 0 && static_cast<std::size_t>(Verb::write) == 1 &&
              static_cast<std::size_t>(Verb::cas) == 2 && static_cast<std::size_t>(Verb::faa) == 3 &&
              static_cast<std::size_t>(Verb::send) == 4 && static_cast<std::size_t>(Verb::recv) == 5);

// Not inlined, so that its callers save no registers for it.
[[gnu::noinline]] void hang(const WorkRequest& request, std::uint64_t payload, std::uint64_t wire) {
  OpStats& stats = *request.stats;
  ++(stats.*counts[static_cast<std::size_t>(request.verb)]);
  stats.payload_bytes += payload;
  stats.wire_bytes += wire;
}

}  // namespace

void RequestCounter::count(const WorkRequest& request) {
  by_verb_[static_cast<std::size_t>(request.verb)].add(1);
  WireTable::Bytes wire{0, 0};
  std::uint64_t payload = 0;
  if (request.peer != own_) {
    wire = wire_->of(request);
    payload = payload_bytes(request.verb, request.length);
    if (request.peer < peer_count_) {
      Peer& peer = peers_[request.peer];
      peer.requested.add(wire.request);
      peer.responded.add(wire.response);
    }
    payload_.add(payload);
  }
  if (request.stats != nullptr) hang(request, payload, wire.request + wire.response);
}

void RequestCounter::count_several(const WorkRequest* chain) {
  for (; chain != nullptr; chain = chain->next) count(*chain);
}

void RequestCounter::attribute(const WorkRequest& arrived) {
  if (arrived.peer == own_ || arrived.stats == nullptr) return;
  const WireTable::Bytes wire = wire_->of(arrived);
  hang(arrived, payload_bytes(arrived.verb, arrived.length), wire.request + wire.response);
}

void RequestCounter::reset() {
  for (SharedCount& count : by_verb_) count.reset();
  payload_.reset();
  for (Peer& peer : peers_) {
    peer.requested.reset();
    peer.responded.reset();
  }
}

}  // namespace loch::fabric
