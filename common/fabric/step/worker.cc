// The worker of the step fabric: posting, and what its coroutines wait for (memory words, messages,
// reconnections).
#include <algorithm>
#include <utility>

#include "common/fabric/memory.h"
#include "common/fabric/step/step.h"

namespace loch::fabric::step {

StepWorker::StepWorker(StepFabric& fabric, const WorkerSpec& spec, std::uint64_t seed)
    : Worker(spec, seed, &ready_), fabric_(fabric) {}
StepWorker::~StepWorker() { forget(); }

// Empties the lists that point into the worker's coroutine frames, then destroys the frames.
void StepWorker::forget() {
  parked_.clear();
  watches_.clear();
  timers_.clear();
  receives_.clear();
  ready_.clear();
  const coro::Abandon abandon;
  if (main_) main_.destroy();
  main_ = {};
}

Nanos StepWorker::now() const { return fabric_.now_ + ahead_; }
Nanos StepWorker::node_clock() const {
  const auto skew = fabric_.skews_.find(node());
  return now() + (skew == fabric_.skews_.end() ? 0 : skew->second);
}
bool StepWorker::stopping() const { return fabric_.is_stopping_; }
const Capabilities& StepWorker::capabilities() const { return fabric_.capabilities_; }

void StepWorker::park(const WorkRequest& request, WorkRequest* original) {
  Parked parked{request, original, {}};
  if (request.is_inline && request.length != 0) {
    parked.payload.resize(request.length);
    copy_from_shared(parked.payload.data(), request.local.data(), request.length);
  }
  parked_.push_back(std::move(parked));
}
void StepWorker::do_post(WorkRequest* chain) {
  for (; chain != nullptr; chain = chain->next) park(*chain, chain);
}
void StepWorker::do_post_detached(const WorkRequest& request) { park(request, nullptr); }

void StepWorker::post_recv(Transport transport, LocalSlice buffer, std::uint32_t length, std::uint64_t user) {
  mailbox(transport).buffers.push_back({buffer, length, user});
}

void StepWorker::store_word(Region& region, std::uint64_t offset, std::uint64_t value) {
  store_word_release(region.at(offset), value);
}

bool StepWorker::connected(NodeId peer) const {
  const auto found = broken_.find(peer);
  return found == broken_.end() || !found->second;
}
std::uint32_t StepWorker::epoch(NodeId peer) const {
  const auto found = epochs_.find(peer);
  return found == epochs_.end() ? 0 : found->second;
}

bool StepWorker::is_ready(WatchWait* wait) const {
  if (fabric_.is_stopping_) {
    wait->result.outcome = WatchOutcome::stopping;
    return true;
  }
  if (wait->set.count != 0) {
    const WatchSet& set = wait->set;
    for (std::uint32_t i = 0; i < set.count; ++i) {
      const std::uint32_t index = (wait->start + i) % set.count;
      const std::uint64_t word = load_word(set.region->at(set.offset + std::uint64_t{index} * set.stride));
      if (!set.ready(set.context, index, word)) continue;
      wait->result = {WatchOutcome::ready, index};
      return true;
    }
    return false;
  }
  const WatchWord& word = wait->word;
  const std::uint64_t value = load_word(word.region->at(word.offset)) & word.mask;
  if ((value == word.value) == word.until_equal) {
    wait->result.outcome = WatchOutcome::ready;
    return true;
  }
  if (word.peer && !connected(*word.peer)) {
    wait->result.outcome = WatchOutcome::link_down;
    return true;
  }
  return false;
}

void StepWorker::settle() {
  std::erase_if(watches_, [&](WatchWait* wait) {
    if (!is_ready(wait)) return false;
    ready_.push(wait->waiter);
    return true;
  });
}

void StepWorker::begin_watch(WatchWait* wait) {
  watches_.push_back(wait);
  settle();
}

bool StepWorker::can_take(const ReceiveWait& wait) const {
  return fabric_.is_stopping_ || !mailbox(wait.transport).arrived.empty();
}

void StepWorker::take(ReceiveWait* wait) {
  Mailbox& box = mailbox(wait->transport);
  if (!box.arrived.empty()) {
    wait->result = box.arrived.front();
    box.arrived.pop_front();
  } else {
    wait->result.outcome = Received::Outcome::stopping;
  }
  ready_.push(wait->waiter);
}

void StepWorker::begin_receive(ReceiveWait* wait) {
  if (can_take(*wait))
    take(wait);
  else
    receives_.push_back(wait);
}

void StepWorker::begin_reconnect(ReconnectWait* wait) {
  const auto refused = refused_.find(wait->peer);
  const bool is_refused = refused != refused_.end() && std::exchange(refused->second, false);
  wait->connected = !fabric_.is_cut(wait->peer) && !is_refused;
  if (wait->connected) {
    broken_[wait->peer] = false;
    ++epochs_[wait->peer];
  } else {
    const Nanos left = std::max<Nanos>(0, wait->deadline - now());
    (fabric_.config_.has_own_time ? ahead_ : fabric_.now_) += left;
  }
  ready_.push(wait->waiter);
}

}  // namespace loch::fabric::step
