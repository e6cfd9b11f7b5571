#include "nessie/step_fabric.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/fabric/memory.h"
#include "common/fabric/wire.h"

namespace loch::nessie::testing {

using fabric::NodeId;
using fabric::WcStatus;
using fabric::WorkRequest;

StepWorker::StepWorker(StepFabric& fabric, const fabric::WorkerSpec& spec, std::uint64_t seed)
    : Worker(spec, seed), fabric_(fabric) {}
StepWorker::~StepWorker() {
  if (main_) main_.destroy();
}
Nanos StepWorker::now() const { return fabric_.now_; }
Nanos StepWorker::node_clock() const {
  const auto skew = fabric_.skews_.find(node());
  return fabric_.now_ + (skew == fabric_.skews_.end() ? 0 : skew->second);
}
const fabric::Capabilities& StepWorker::capabilities() const { return fabric_.capabilities_; }

void StepWorker::post(WorkRequest* chain) {
  for (; chain != nullptr; chain = chain->next)
    parked_.push_back({*chain, chain->is_signaled ? chain : nullptr});
}
void StepWorker::post_detached(const WorkRequest& request) { parked_.push_back({request, nullptr}); }
void StepWorker::post_recv(fabric::Transport, fabric::LocalSlice, std::uint32_t, std::uint64_t) {
  LOCH_CHECK(false, "the step fabric has no messages");
}
void StepWorker::begin_receive(fabric::ReceiveWait*) { LOCH_CHECK(false, "the step fabric has no messages"); }
void StepWorker::store_word(fabric::Region& region, std::uint64_t offset, std::uint64_t value) {
  fabric::store_word_release(region.at(offset), value);
}
bool StepWorker::connected(NodeId peer) const {
  const auto found = broken_.find(peer);
  return found == broken_.end() || !found->second;
}
std::uint32_t StepWorker::epoch(NodeId peer) const {
  const auto found = epochs_.find(peer);
  return found == epochs_.end() ? 0 : found->second;
}
void StepWorker::begin_watch(fabric::WatchWait* wait) {
  watches_.push_back(wait);
  settle();
}
void StepWorker::begin_reconnect(fabric::ReconnectWait* wait) {
  wait->connected = !fabric_.cut_[wait->peer];
  if (wait->connected) {
    broken_[wait->peer] = false;
    ++epochs_[wait->peer];
  } else {
    fabric_.now_ = std::max(fabric_.now_, wait->deadline);
  }
  ready_.push(wait->waiter);
}

// Wakes the watches that can end.
void StepWorker::settle() {
  std::erase_if(watches_, [&](fabric::WatchWait* wait) {
    const fabric::WatchWord& word = wait->word;
    const std::uint64_t value = fabric::load_word(word.region->at(word.offset)) & word.mask;
    if ((value == word.value) == word.until_equal) {
      wait->result.outcome = fabric::WatchOutcome::ready;
    } else if (word.peer && !connected(*word.peer)) {
      wait->result.outcome = fabric::WatchOutcome::link_down;
    } else {
      return false;
    }
    ready_.push(wait->waiter);
    return true;
  });
}

StepFabric::StepFabric(std::uint32_t nodes, std::uint64_t seed)
    : nodes_(nodes), seed_(seed), regions_(nodes) {
  capabilities_.fabric = "step";
  capabilities_.in_order_placement = true;
}
StepFabric::~StepFabric() = default;

Result<fabric::Region*> StepFabric::register_region(NodeId node, const fabric::RegionSpec& spec) {
  auto owned = std::make_unique<OwnedRegion>();
  owned->spec = spec;
  owned->memory.resize((spec.elision.physical_bytes(spec.bytes) + 7) / 8);
  const auto id = static_cast<std::uint32_t>(regions_[node].size());
  owned->region = std::make_unique<fabric::Region>(
      node, id, spec.name, reinterpret_cast<std::byte*>(owned->memory.data()), spec.bytes, spec.elision);
  regions_[node].push_back(std::move(owned));
  return regions_[node].back()->region.get();
}
Result<fabric::Worker*> StepFabric::add_worker(const fabric::WorkerSpec& spec) {
  workers_.push_back(std::make_unique<StepWorker>(*this, spec, seed_));
  return workers_.back().get();
}
fabric::Region* StepFabric::direct(NodeId node, std::string_view region) {
  for (const auto& owned : regions_[node]) {
    if (owned->spec.name == region) return owned->region.get();
  }
  return nullptr;
}
Result<fabric::RemoteRegion> StepFabric::lookup(NodeId node, std::string_view region) const {
  for (const auto& owned : regions_[node]) {
    if (owned->spec.name == region)
      return fabric::RemoteRegion{node, owned->region->id(), 1, owned->region->bytes()};
  }
  return fail(ErrorCode::not_found, fmt::format("node {} has no region {}", node, region));
}

void StepFabric::start(fabric::Worker& worker, coro::Task<void> main) {
  StepWorker& w = own(worker);
  if (w.main_) w.main_.destroy();
  w.main_ = StepWorker::run(std::move(main)).handle;
  w.ready_.push(w.main_);
}
bool StepFabric::is_done(fabric::Worker& worker) const {
  const StepWorker& w = own(worker);
  return w.is_killed_ || !w.main_ || w.main_.done();
}

// Copies what the regions keep: elided parts move no bytes.
static void copy(fabric::Region& to, std::uint64_t to_at, fabric::Region& from, std::uint64_t from_at,
                 std::uint64_t length) {
  for (std::uint64_t done = 0; done < length;) {
    const std::uint64_t left = length - done;
    const std::uint64_t run = std::min(from.kept(from_at + done, left), to.kept(to_at + done, left));
    if (run != 0) fabric::copy_shared(to.at(to_at + done), from.at(from_at + done), run);
    done += run != 0 ? run : std::min(left, from.elided_run(from_at + done));
  }
}

void StepFabric::execute(WorkRequest& request) {
  OwnedRegion& target = *regions_[request.remote.node][request.remote.id];
  fabric::Region& remote = *target.region;
  LOCH_CHECK_LE(request.remote_offset + request.length, remote.bytes());
  switch (request.verb) {
    case fabric::Verb::read:
      LOCH_CHECK(target.spec.remote_read, "READ of {}", remote.name());
      copy(*request.local.region, request.local.offset, remote, request.remote_offset, request.length);
      break;
    case fabric::Verb::write:
      LOCH_CHECK(target.spec.remote_write, "WRITE to {}", remote.name());
      copy(remote, request.remote_offset, *request.local.region, request.local.offset, request.length);
      break;
    case fabric::Verb::cas: {
      LOCH_CHECK(target.spec.remote_atomic, "CAS of {}", remote.name());
      std::byte* word = remote.at(request.remote_offset);
      request.result = fabric::load_word(word);
      if (request.result == request.compare) fabric::store_word_release(word, request.operand);
      if (request.local.region != nullptr) fabric::store_word_release(request.local.data(), request.result);
      break;
    }
    default:
      LOCH_CHECK(false, "the step fabric has READ, WRITE and CAS");
  }
}

void StepFabric::complete(StepWorker& worker, StepWorker::Parked& parked, WcStatus status) {
  now_ += 1'000;
  ++executed_;
  if (fabric::OpStats* stats = parked.request.stats; stats != nullptr) {
    ++(parked.request.verb == fabric::Verb::read    ? stats->read
       : parked.request.verb == fabric::Verb::write ? stats->write
                                                    : stats->cas);
    if (parked.request.peer != worker.node()) {
      stats->payload_bytes += fabric::payload_bytes(parked.request.verb, parked.request.length);
    }
  }
  if (parked.awaited != nullptr) {
    parked.awaited->status = status;
    parked.awaited->result = parked.request.result;
    if (parked.awaited->sink != nullptr) parked.awaited->sink->fn(parked.awaited->sink, *parked.awaited);
  }
  worker.settle();
}

bool StepFabric::step(fabric::Worker& worker, bool lets_time_pass) {
  StepWorker& w = own(worker);
  if (is_done(worker)) return false;
  w.ready_.drain();
  while (w.parked_.empty() && !w.main_.done()) {
    if (w.timers_.empty()) return false;
    const auto first = std::ranges::min_element(w.timers_, {}, &fabric::TimerWait::at);
    if ((*first)->at > now_ && !lets_time_pass) return false;
    now_ = std::max(now_, (*first)->at);
    w.ready_.push((*first)->waiter);
    w.timers_.erase(first);
    w.ready_.drain();
  }
  if (w.parked_.empty()) return false;
  StepWorker::Parked parked = w.parked_.front();
  w.parked_.pop_front();
  if (!w.connected(parked.request.peer) || cut_[parked.request.peer]) {
    w.broken_[parked.request.peer] = true;
    complete(w, parked, cut_[parked.request.peer] ? WcStatus::retry_exceeded : WcStatus::flushed);
  } else {
    execute(parked.request);
    complete(w, parked, WcStatus::success);
  }
  w.ready_.drain();
  return true;
}

const WorkRequest* StepFabric::next(fabric::Worker& worker) {
  StepWorker& w = own(worker);
  if (is_done(worker)) return nullptr;
  w.ready_.drain();
  return w.parked_.empty() ? nullptr : &w.parked_.front().request;
}

void StepFabric::fail_next(fabric::Worker& worker, bool takes_effect) {
  StepWorker& w = own(worker);
  w.ready_.drain();
  LOCH_CHECK(!w.parked_.empty(), "nothing is posted");
  StepWorker::Parked parked = w.parked_.front();
  w.parked_.pop_front();
  if (takes_effect) {
    // The peer did it; its answer never came.
    const fabric::LocalSlice landing = parked.request.local;
    if (parked.request.verb == fabric::Verb::cas) parked.request.local = {};
    if (parked.request.verb != fabric::Verb::read) execute(parked.request);
    parked.request.local = landing;
  }
  w.broken_[parked.request.peer] = true;
  complete(w, parked, WcStatus::retry_exceeded);
  w.ready_.drain();
}

void StepFabric::kill(fabric::Worker& worker) {
  StepWorker& w = own(worker);
  w.is_killed_ = true;
  w.parked_.clear();
}

void StepFabric::finish(fabric::Worker& worker) {
  for (int i = 0; i < 1'000'000; ++i) {
    if (!step(worker)) break;
  }
  LOCH_CHECK(is_done(worker), "worker {} of node {} did not end", worker.index(), worker.node());
}

Result<fabric::RunEnd> StepFabric::run() {
  for (bool any = true; any;) {
    any = false;
    for (const auto& worker : workers_) any = step(*worker) || any;
  }
  for (const auto& worker : workers_) {
    if (!is_done(*worker)) return fabric::RunEnd::deadlock;
  }
  return fabric::RunEnd::finished;
}

}  // namespace loch::nessie::testing
