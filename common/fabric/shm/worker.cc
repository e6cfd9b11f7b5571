// Executes a worker's requests on shared memory, and delivers messages to receive rings.
#include "common/fabric/shm/worker.h"

#include <utility>

#include "common/base/check.h"

namespace loch::fabric::shm {

ShmWorker::ShmWorker(const WorkerSpec& spec, std::uint64_t seed, Shared* shared, ReceiveArea* receive_area)
    : RealtimeWorker(spec, seed, shared),
      shared_(shared),
      receive_{ReceiveQueue(&receive_area->ring[0]), ReceiveQueue(&receive_area->ring[1]),
               ReceiveQueue(&receive_area->ring[2])},
      doorbell_(receive_area->doorbell) {
  constexpr std::uint32_t most_rounds = 16;
  set_executes_at_once();
  set_rounds_a_turn(most_rounds);
}

void ShmWorker::connect() {
  nodes_ = static_cast<std::uint32_t>(shared_->nodes.size());
  links_.resize(nodes_);
  for (std::uint32_t node = 0; node < nodes_; ++node) {
    const NodeTable& table = shared_->nodes[node];
    Link& link = links_[node];
    link.regions = table.regions.data();
    link.region_count = static_cast<std::uint32_t>(table.regions.size());
    link.areas = table.receive_areas.data();
    link.area_count = static_cast<std::uint32_t>(table.receive_areas.size());
  }
}

bool ShmWorker::connected(NodeId peer) const {
  return links_.at(peer).failed_lanes == 0 && !shared_->is_lost(peer);
}

void ShmWorker::post_recv(Transport transport, LocalSlice buffer, std::uint32_t length, std::uint64_t user) {
  LOCH_CHECK(buffer.region != nullptr && buffer.region->node() == node() &&
                 length <= buffer.region->bytes() && buffer.offset <= buffer.region->bytes() - length,
             "a receive buffer lies in a region of its own node");
  ReceiveQueue& queue = receive_[static_cast<std::size_t>(transport)];
  LOCH_CHECK(
      ++posted_receives_[static_cast<std::size_t>(transport)] <= shared_->capabilities.recv_queue_depth,
      "more receives are posted than the queue is deep");
  queue.post(buffer.region->id(), buffer.offset, length, user, buffer.data());
}

void ShmWorker::fill(Received& message, const ReceiveSlot& slot) const {
  message.outcome = Received::Outcome::message;
  message.from = slot.from;
  message.from_worker = slot.from_worker;
  message.length = slot.length;
  message.has_immediate = slot.has_immediate;
  message.immediate = slot.immediate;
  message.buffer = {regions_[slot.region], slot.offset};
  message.user = slot.user;
}

bool ShmWorker::poll_arrivals(Transport transport, ReceiveWait*& waiters) {
  const auto at = static_cast<std::size_t>(transport);
  if (!receive_[at].has_arrivals()) return false;
  std::uint32_t waiting = 0;
  for (const ReceiveWait* wait = waiters; wait != nullptr; wait = wait->next) ++waiting;
  const auto is_lost = [this](NodeId claimant) { return shared_->is_lost(claimant); };
  const auto deliver = [&](const ReceiveSlot& slot) {
    --posted_receives_[at];
    fill(waiters->result, slot);
    finish_receive(waiters);
  };
  return receive_[at].poll(waiting, is_lost, deliver) != 0;
}

bool ShmWorker::try_reconnect(NodeId peer) {
  Link& link = links_.at(peer);
  if (shared_->is_lost(peer) || link.stalled_lanes != 0) return false;
  if (link.failed_lanes != 0) {
    link.failed_lanes = 0;
    ++link.epoch;
  }
  return true;
}

bool ShmWorker::arm_doorbell() {
  const Span span = watched();
  // A message wakes the worker too, whatever bytes the doorbell is armed for.
  if (span.region != nullptr) {
    doorbell_.arm(span.region->id(), span.begin, span.end);
  } else {
    doorbell_.arm(is_watching() ? Doorbell::every_region : 0, 0, 0);
  }
  return true;
}

// Calls the completion callbacks (WorkRequest::sink) of the requests that have completed by now. Requests
// that a callback posts are left to the next iteration of the polling loop. A callback may free its request.
void ShmWorker::tell_sinks() {
  WorkRequest* done = std::exchange(completions_, nullptr);
  completions_end_ = &completions_;
  while (done != nullptr) {
    WorkRequest* const next = done->next;
    done->sink->fn(done->sink, *done);
    done = next;
  }
}

bool ShmWorker::poll_device() {
  bool moved = false;
  if (completions_ != nullptr) {
    tell_sinks();
    moved = true;
  }
  if (!stalled_.empty()) moved |= poll_stalled();
  return moved;
}

}  // namespace loch::fabric::shm
