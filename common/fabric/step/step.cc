// Implements the step fabric: setting it up, executing requests, delivering messages, and advancing time.
#include "common/fabric/step/step.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/fabric/memory.h"
#include "common/fabric/wire.h"

namespace loch::fabric::step {
namespace {

constexpr std::uint32_t grh_bytes = 40;  // the global routing header at the start of a UD receive buffer

// Copies the bytes that both regions store; the other bytes are left out.
void copy(Region& to, std::uint64_t to_at, Region& from, std::uint64_t from_at, std::uint64_t length) {
  for (std::uint64_t done = 0; done < length;) {
    const std::uint64_t left = length - done;
    const std::uint64_t run = std::min(from.kept(from_at + done, left), to.kept(to_at + done, left));
    if (run != 0) copy_shared(to.at(to_at + done), from.at(from_at + done), run);
    done += run != 0 ? run : std::min(left, from.elided_run(from_at + done));
  }
}

// Copies the payload of a WRITE or SEND to its destination; an inline payload comes from the request itself.
void place(const WorkRequest& request, const std::vector<std::byte>& inline_data, Region& to,
           std::uint64_t at) {
  if (request.length == 0) return;
  if (request.is_inline)
    copy_to_shared(to.at(at), inline_data.data(), inline_data.size());
  else
    copy(to, at, *request.local.region, request.local.offset, request.length);
}

void count(const StepWorker& worker, const WorkRequest& request) {
  OpStats* stats = request.stats;
  if (stats == nullptr) return;
  switch (request.verb) {
    case Verb::read:
      ++stats->read;
      break;
    case Verb::write:
      ++stats->write;
      break;
    case Verb::cas:
      ++stats->cas;
      break;
    case Verb::faa:
      ++stats->faa;
      break;
    case Verb::send:
      ++stats->send;
      break;
    case Verb::recv:
      ++stats->recv;
      break;
  }
  if (request.peer != worker.node()) stats->payload_bytes += payload_bytes(request.verb, request.length);
}

// ---- torn requests

constexpr std::uint32_t line_bytes = 64;
constexpr std::uint32_t most_pieces = 8;  // a torn request has at most so many pieces, as in the simulator

struct Part {
  std::uint32_t begin = 0, end = 0;
};
Part first_part(const WorkRequest& request, const Tear& tear) {
  return tear.is_upper_first ? Part{tear.lower_bytes, request.length} : Part{0, tear.lower_bytes};
}
Part second_part(const WorkRequest& request, const Tear& tear) {
  return tear.is_upper_first ? Part{0, tear.lower_bytes} : Part{tear.lower_bytes, request.length};
}

// Offset of the request's data in the requester's buffer or in the peer's region: the 64-byte lines of that
// memory decide where the request can be torn.
std::uint64_t torn_memory_at(const WorkRequest& request, bool is_at_landing) {
  return is_at_landing ? request.local.offset : request.remote_offset;
}

// The two memory ranges of a torn request: it moves `length` bytes from one to the other. The payload of an
// inline WRITE lies in the request and not in a region; both ranges are then the peer's, so that only the
// peer's region decides which bytes are stored.
struct Ends {
  Region& from;
  std::uint64_t from_at = 0;
  Region& to;
  std::uint64_t to_at = 0;
};
Ends ends_of(const WorkRequest& request, Region& remote) {
  Region& local = request.is_inline ? remote : *request.local.region;
  const std::uint64_t local_at = request.is_inline ? request.remote_offset : request.local.offset;
  if (request.verb == Verb::write) return {local, local_at, remote, request.remote_offset};
  return {remote, request.remote_offset, local, local_at};
}

// Calls `move`(offset in the message, number of bytes) for each run of bytes of `part` that both regions
// store.
template <typename Move>
void for_stored(const Ends& ends, Part part, Move move) {
  for (std::uint64_t done = part.begin; done < part.end;) {
    const std::uint64_t left = part.end - done;
    const std::uint64_t run =
        std::min(ends.from.kept(ends.from_at + done, left), ends.to.kept(ends.to_at + done, left));
    if (run != 0) move(done, run);
    done += run != 0 ? run : std::min(left, ends.from.elided_run(ends.from_at + done));
  }
}
void fetch(std::vector<std::byte>& staged, const Ends& ends, Part part) {
  for_stored(ends, part, [&](std::uint64_t at, std::uint64_t bytes) {
    copy_from_shared(staged.data() + at, ends.from.at(ends.from_at + at), bytes);
  });
}
void put(const std::vector<std::byte>& staged, const Ends& ends, Part part) {
  for_stored(ends, part, [&](std::uint64_t at, std::uint64_t bytes) {
    copy_to_shared(ends.to.at(ends.to_at + at), staged.data() + at, bytes);
  });
}

// Executes the second half of a torn request.
void finish_torn(const WorkRequest& request, const Tear& tear, std::vector<std::byte>& staged,
                 Region& remote) {
  const Part rest = second_part(request, tear);
  const Ends ends = ends_of(request, remote);
  if (request.verb == Verb::write || tear.is_at_landing) return put(staged, ends, rest);
  fetch(staged, ends, rest);
  put(staged, ends, {0, request.length});
}

}  // namespace

StepFabric::StepFabric(const StepConfig& config) : config_(config), regions_(config.nodes) {
  capabilities_.fabric = "step";
  set_in_order(true);
}
StepFabric::~StepFabric() { abandon(); }

void StepFabric::abandon() {
  for (const auto& worker : workers_) worker->forget();
}

Result<Region*> StepFabric::register_region(NodeId node, const RegionSpec& spec) {
  auto owned = std::make_unique<OwnedRegion>();
  owned->spec = spec;
  owned->memory.resize((spec.elision.physical_bytes(spec.bytes) + 7) / 8);
  const auto id = static_cast<std::uint32_t>(regions_[node].size());
  owned->region = std::make_unique<Region>(
      node, id, spec.name, reinterpret_cast<std::byte*>(owned->memory.data()), spec.bytes, spec.elision);
  regions_[node].push_back(std::move(owned));
  return regions_[node].back()->region.get();
}

Result<Worker*> StepFabric::add_worker(const WorkerSpec& spec) {
  workers_.push_back(std::make_unique<StepWorker>(*this, spec, config_.seed));
  return workers_.back().get();
}

Region* StepFabric::direct(NodeId node, std::string_view region) {
  for (const auto& owned : regions_[node]) {
    if (owned->spec.name == region) return owned->region.get();
  }
  return nullptr;
}

Result<RemoteRegion> StepFabric::lookup(NodeId node, std::string_view region) const {
  for (const auto& owned : regions_[node]) {
    if (owned->spec.name == region) return RemoteRegion{node, owned->region->id(), 1, owned->region->bytes()};
  }
  return fail(ErrorCode::not_found, fmt::format("node {} has no region {}", node, region));
}

std::vector<StepFabric::Memory> StepFabric::memories() const {
  std::vector<Memory> all;
  for (const auto& node : regions_) {
    for (const auto& owned : node) {
      all.push_back({owned->region.get(), &owned->spec,
                     reinterpret_cast<const std::byte*>(owned->memory.data()), owned->memory.size() * 8});
    }
  }
  return all;
}

StepWorker* StepFabric::find(NodeId node, std::uint16_t index) const {
  for (const auto& worker : workers_) {
    if (worker->node() == node && worker->index() == index) return worker.get();
  }
  return nullptr;
}

void StepFabric::start(Worker& worker, coro::Task<void> main) {
  StepWorker& w = own(worker);
  if (w.main_ && !w.main_.done()) w.forget();  // the worker's last requests may not have been executed yet
  if (w.main_) w.main_.destroy();
  w.main_ = StepWorker::run(std::move(main)).handle;
  w.ready_.push(w.main_);
}

bool StepFabric::is_done(Worker& worker) const {
  const StepWorker& w = own(worker);
  return w.is_killed_ || !w.main_ || w.main_.done();
}

// ---- requests

// The region that the request accesses. Aborts if the region's rights or its size do not allow the request.
Region& StepFabric::target_of(const WorkRequest& request) const {
  const OwnedRegion& target = *regions_[request.remote.node][request.remote.id];
  const RegionSpec& spec = target.spec;
  const bool has_right = request.verb == Verb::read    ? spec.remote_read
                         : request.verb == Verb::write ? spec.remote_write
                                                       : spec.remote_atomic;
  LOCH_CHECK(has_right, "{} of {}", name(request.verb), spec.name);
  LOCH_CHECK_LE(request.remote_offset + request.length, target.region->bytes());
  return *target.region;
}

void StepFabric::apply(StepWorker& worker, StepWorker::Parked& parked) {
  WorkRequest& request = parked.request;
  if (request.verb == Verb::send) return deliver(worker, request);
  Region& remote = target_of(request);
  if (parked.torn) return finish_torn(parked.request, *parked.torn, parked.staged, remote);
  switch (request.verb) {
    case Verb::read:
      copy(*request.local.region, request.local.offset, remote, request.remote_offset, request.length);
      break;
    case Verb::write:
      place(request, worker.parked_payload_, remote, request.remote_offset);
      break;
    case Verb::cas:
    case Verb::faa: {
      std::byte* word = remote.at(request.remote_offset);
      request.result = load_word(word);
      if (request.verb == Verb::faa)
        store_word_release(word, request.result + request.operand);
      else if (request.result == request.compare)
        store_word_release(word, request.operand);
      if (request.local.region != nullptr) store_word_release(request.local.data(), request.result);
      break;
    }
    default:
      LOCH_CHECK(false, "a RECV is posted by post_recv");
  }
}

// Copies the message into the receiver's oldest buffer. Without a buffer the message is lost, except that
// is_executable() lets an RC message wait for one.
void StepFabric::deliver(const StepWorker& from, const WorkRequest& message) {
  StepWorker* to = find(message.peer, message.peer_worker);
  if (to == nullptr || to->is_killed_) return;
  StepWorker::Mailbox& box = to->mailbox(message.transport);
  if (box.buffers.empty()) return;
  const StepWorker::Buffer buffer = box.buffers.front();
  box.buffers.pop_front();
  const std::uint32_t head = message.transport == Transport::ud ? grh_bytes : 0;
  LOCH_CHECK_LE(message.length + head, buffer.length);
  place(message, from.parked_payload_, *buffer.slice.region, buffer.slice.offset + head);
  Received received;
  received.from = from.node();
  received.from_worker = from.index();
  received.length = message.length;
  received.has_immediate = message.has_immediate;
  received.immediate = message.immediate;
  received.buffer = buffer.slice;
  received.user = buffer.user;
  box.arrived.push_back(received);
}

bool StepFabric::is_executable(Worker& worker, std::size_t i) const {
  const StepWorker& w = own(worker);
  const WorkRequest& request = w.parked_[i].request;
  for (std::size_t before = 0; before < i; ++before) {
    const WorkRequest& older = w.parked_[before].request;
    if (older.peer == request.peer && older.transport == request.transport && older.lane == request.lane &&
        (older.verb != Verb::send || older.peer_worker == request.peer_worker))
      return false;
  }
  if (request.verb != Verb::send || request.transport != Transport::rc) return true;
  if (!w.connected(request.peer)) return true;
  StepWorker* to = find(request.peer, request.peer_worker);
  return to == nullptr || to->is_killed_ || !to->mailbox(Transport::rc).buffers.empty();
}

WorkRequest StepFabric::execute(Worker& worker, std::size_t i, Fate fate) {
  StepWorker& w = own(worker);
  StepWorker::Parked parked = std::move(w.parked_[i]);
  w.parked_.erase(w.parked_.begin() + static_cast<std::ptrdiff_t>(i));
  WorkRequest& request = parked.request;
  w.parked_payload_ = std::move(parked.payload);
  const bool is_reliable = request.transport == Transport::rc;
  WcStatus status = WcStatus::success;
  if (is_reliable && (!w.connected(request.peer) || is_cut(request.peer))) {
    status = is_cut(request.peer) ? WcStatus::retry_exceeded : WcStatus::flushed;
  } else if (fate == Fate::executed) {
    apply(w, parked);
  } else {
    if (fate == Fate::unheard && request.verb != Verb::read) {
      // The peer executed the request, but its response was lost.
      const LocalSlice landing = request.local;
      if (is_atomic(request.verb)) request.local = {};
      apply(w, parked);
      request.local = landing;
      request.result = 0;
    }
    if (is_reliable) status = WcStatus::retry_exceeded;
  }
  if (status != WcStatus::success) w.broken_[request.peer] = true;
  complete(w, parked, status);
  return request;
}

std::uint32_t StepFabric::pieces(Worker& worker, std::size_t i, bool is_at_landing) const {
  const StepWorker::Parked& parked = own(worker).parked_[i];
  const WorkRequest& request = parked.request;
  const bool is_read = request.verb == Verb::read;
  if (parked.torn || (!is_read && (request.verb != Verb::write || is_at_landing)) || request.length == 0)
    return 1;
  const std::uint64_t skew = torn_memory_at(request, is_at_landing) % line_bytes;
  const std::uint64_t lines = (skew + request.length + line_bytes - 1) / line_bytes;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(most_pieces, lines));
}

Tear StepFabric::tear_at(Worker& worker, std::size_t i, bool is_at_landing, bool is_upper_first,
                         std::uint32_t piece) const {
  const WorkRequest& request = own(worker).parked_[i].request;
  const std::uint32_t all = pieces(worker, i, is_at_landing);
  LOCH_CHECK(piece >= 1 && piece < all, "piece {} of {}", piece, all);
  const std::uint64_t skew = torn_memory_at(request, is_at_landing) % line_bytes;
  const std::uint64_t lines = (skew + request.length + line_bytes - 1) / line_bytes;
  const std::uint64_t edge = lines * piece / all * line_bytes;
  return {is_at_landing, is_upper_first, static_cast<std::uint32_t>(edge - skew)};
}

void StepFabric::execute_half(Worker& worker, std::size_t i, const Tear& tear) {
  StepWorker::Parked& parked = own(worker).parked_[i];
  const WorkRequest& request = parked.request;
  LOCH_CHECK(!parked.torn && pieces(worker, i, tear.is_at_landing) > 1, "{} cannot be torn",
             name(request.verb));
  LOCH_CHECK(tear.lower_bytes > 0 && tear.lower_bytes < request.length, "a half of nothing");
  Region& remote = target_of(request);
  parked.torn = tear;
  const Ends ends = ends_of(request, remote);
  const Part part = first_part(request, tear), whole = {0, request.length};
  if (request.verb == Verb::write) {
    // A WRITE's payload is read from the requester's memory at one instant, although its two halves are
    // written to the peer's memory at two.
    parked.staged = parked.payload;
    if (!request.is_inline) {
      parked.staged.resize(request.length);
      fetch(parked.staged, ends, whole);
    }
    return put(parked.staged, ends, part);
  }
  parked.staged.resize(request.length);
  fetch(parked.staged, ends, tear.is_at_landing ? whole : part);
  if (tear.is_at_landing) put(parked.staged, ends, part);
}

void StepFabric::complete(StepWorker& worker, StepWorker::Parked& parked, WcStatus status) {
  if (config_.has_own_time)
    worker.ahead_ += config_.request_cost;
  else
    now_ += config_.request_cost;
  ++executed_;
  parked.request.status = status;
  count(worker, parked.request);
  if (parked.original != nullptr) {
    parked.original->status = status;
    parked.original->result = parked.request.result;
    CompletionSink* sink = parked.original->sink;
    if (sink != nullptr && parked.original->is_signaled) sink->fn(sink, *parked.original);
  }
  worker.settle();
}

// ---- waits for memory words that are fulfilled, and passing time

bool StepFabric::has_news(Worker& worker) const {
  const StepWorker& w = own(worker);
  if (w.is_killed_) return false;
  return std::ranges::any_of(w.watches_, [&](WatchWait* wait) { return w.is_ready(wait); }) ||
         std::ranges::any_of(w.receives_, [&](const ReceiveWait* wait) { return w.can_take(*wait); });
}

void StepFabric::take_news(Worker& worker) {
  StepWorker& w = own(worker);
  w.settle();
  for (std::size_t i = 0; i < w.receives_.size();) {
    ReceiveWait* wait = w.receives_[i];
    if (!w.can_take(*wait)) {
      ++i;
      continue;
    }
    w.receives_.erase(w.receives_.begin() + static_cast<std::ptrdiff_t>(i));
    w.take(wait);
  }
}

StepFabric::Alarm StepFabric::next_alarm(Worker& worker, Alarms which) const {
  const StepWorker& w = own(worker);
  Alarm alarm;
  if (w.is_killed_) return alarm;
  if (which != Alarms::deadlines) {
    for (const TimerWait* wait : w.timers_) {
      if (wait->at < alarm.at) alarm = {wait->at, false};
    }
  }
  if (which == Alarms::timers) return alarm;
  for (const WatchWait* wait : w.watches_) {
    if (wait->deadline < alarm.at) alarm = {wait->deadline, true};
  }
  for (const ReceiveWait* wait : w.receives_) {
    if (wait->deadline < alarm.at) alarm = {wait->deadline, true};
  }
  return alarm;
}

void StepFabric::ring(Worker& worker, Alarms which) {
  StepWorker& w = own(worker);
  const Alarm alarm = next_alarm(worker, which);
  LOCH_CHECK(alarm.at != forever, "nothing waits for time");
  if (!alarm.is_deadline) {
    const auto first = std::ranges::find(w.timers_, alarm.at, &TimerWait::at);
    return ring_timer(worker, static_cast<std::size_t>(first - w.timers_.begin()));
  }
  (config_.has_own_time ? w.ahead_ : now_) += std::max<Nanos>(0, alarm.at - w.now());
  const auto watch = std::ranges::find(w.watches_, alarm.at, &WatchWait::deadline);
  if (watch != w.watches_.end()) {
    (*watch)->result.outcome = WatchOutcome::timed_out;
    w.ready_.push((*watch)->waiter);
    w.watches_.erase(watch);
    return;
  }
  const auto receive = std::ranges::find(w.receives_, alarm.at, &ReceiveWait::deadline);
  (*receive)->result.outcome = Received::Outcome::timed_out;
  w.ready_.push((*receive)->waiter);
  w.receives_.erase(receive);
}

std::size_t StepFabric::timers(Worker& worker) const {
  const StepWorker& w = own(worker);
  return w.is_killed_ ? 0 : w.timers_.size();
}

void StepFabric::ring_timer(Worker& worker, std::size_t i) {
  StepWorker& w = own(worker);
  const TimerWait* timer = w.timers_[i];
  (config_.has_own_time ? w.ahead_ : now_) += std::max<Nanos>(0, timer->at - w.now());
  w.ready_.push(timer->waiter);
  w.timers_.erase(w.timers_.begin() + static_cast<std::ptrdiff_t>(i));
}

// ---- functions for scripted tests, which run a worker by whole requests

bool StepFabric::step(Worker& worker, bool lets_time_pass) {
  StepWorker& w = own(worker);
  if (is_done(worker)) return false;
  w.ready_.drain();
  while ((w.parked_.empty() || !is_executable(worker, 0)) && !w.main_.done()) {
    if (has_news(worker)) {
      take_news(worker);
    } else {
      const Alarm alarm = next_alarm(worker, Alarms::all);
      if (alarm.at == forever || (alarm.at > w.now() && !lets_time_pass)) return false;
      ring(worker, Alarms::all);
    }
    w.ready_.drain();
  }
  if (w.parked_.empty()) return false;
  execute(worker, 0, Fate::executed);
  w.ready_.drain();
  return true;
}

const WorkRequest* StepFabric::next(Worker& worker) {
  StepWorker& w = own(worker);
  if (is_done(worker)) return nullptr;
  w.ready_.drain();
  return w.parked_.empty() ? nullptr : &w.parked_.front().request;
}

void StepFabric::fail_next(Worker& worker, bool takes_effect) {
  StepWorker& w = own(worker);
  w.ready_.drain();
  LOCH_CHECK(!w.parked_.empty(), "nothing is posted");
  execute(worker, 0, takes_effect ? Fate::unheard : Fate::not_executed);
  w.ready_.drain();
}

void StepFabric::kill(Worker& worker) {
  StepWorker& w = own(worker);
  w.is_killed_ = true;
  w.parked_.clear();
}

void StepFabric::finish(Worker& worker) {
  for (int i = 0; i < 1'000'000; ++i) {
    if (!step(worker)) break;
  }
  LOCH_CHECK(is_done(worker), "worker {} of node {} did not end", worker.index(), worker.node());
}

Result<RunEnd> StepFabric::run() {
  const auto are_clients_done = [&] {
    return std::ranges::all_of(workers_, [&](const auto& worker) {
      return worker->spec().role == Role::server || is_done(*worker);
    });
  };
  for (bool any = true; any;) {
    any = false;
    for (const auto& worker : workers_) any = step(*worker, false) || any;
    if (!any) {
      for (const auto& worker : workers_) any = any || step(*worker);
    }
    if (are_clients_done()) is_stopping_ = true;
  }
  for (const auto& worker : workers_) {
    if (!is_done(*worker)) return RunEnd::deadlock;
  }
  return RunEnd::finished;
}

}  // namespace loch::fabric::step
