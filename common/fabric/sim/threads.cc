// Runs the parts of a simulation by threads that meet after each window of virtual time, and carries messages
// from part to part.
#include "common/fabric/sim/threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "common/base/parallel.h"
#include "common/fabric/sim/worker.h"

namespace loch::fabric::sim {
namespace {
// Gives the calling thread the frame pool of a part for the life of this object.
class OwnFrames {
 public:
  explicit OwnFrames(Simulation& part) : before_(coro::FramePool::exchange_local(&part.frames)) {}
  ~OwnFrames() { coro::FramePool::exchange_local(before_); }
  OwnFrames(const OwnFrames&) = delete;
  OwnFrames& operator=(const OwnFrames&) = delete;

 private:
  coro::FramePool* before_;
};

// A pool takes back no more frames than it has made, but the frames that exist before the run, a few of each
// worker, end in the pool of a part: as many are made there. They are too large for the size classes, so that
// they come from operator new.
void expect_frames(Simulation& part, std::size_t workers) {
  constexpr std::size_t of_worker = 8, bytes = 1 << 16;
  for (std::size_t i = 0; i < workers * of_worker; ++i) ::operator delete(part.frames.allocate(bytes));
}
}  // namespace

Result<> check_threads(const SimConfig& config) {
  const auto refuse = [](std::string_view what) {
    return fail(ErrorCode::invalid_argument, fmt::format("a simulation by several threads has no {}", what));
  };
  if (config.faults.any()) return refuse("faults");
  if (config.random_tie_order) return refuse("random order of simultaneous events");
  if (config.trace != nullptr) return refuse("trace of its requests");
  if (config.deadline != forever || config.finish != forever || config.most_events > 0)
    return refuse("limit of time or events");
  if (config.hardware.nic.crowded.queue_pair_latency_ns > 0)
    return refuse(fmt::format("profile whose latency grows with a node's queue pairs, as that of {} does",
                              config.hardware.name));
  if (Timing(config.hardware).network < 2000)
    return refuse(
        fmt::format("profile whose messages take less than 2 ns, as those of {} do", config.hardware.name));
  return {};
}

// ---- Carrying ------------------------------------------------------------------------------------

void Simulation::send_across(SimRequest* r, const SimNode& sender, const SimNode& receiver, Nanos at) {
  if (&sender == &receiver) return queue.push(r, at);
  const std::uint64_t order = queue.order_of(sender.id + 1U);
  if (receiver.part == part) return queue.push_ordered(r, at, order);
  const auto kind = &sender == r->from ? Outbox::Item::Kind::message : Outbox::Item::Kind::answer;
  outboxes[receiver.part].slots[slot].items.push_back({r, at, order, r->qp, r->wr, r->data, kind});
  next_sent[slot] = std::min(next_sent[slot], at);
}

void Simulation::notify(const SwitchPort::Notice& notice, SimNode& sender) {
  if (sender.part == part) return sender.port.hear(notice);
  outboxes[sender.part].slots[slot].notices.push_back(notice);
}

void Simulation::give_back(std::uint8_t owner, void* object, Outbox::Item::Kind kind) {
  outboxes[owner].slots[slot].items.push_back({.object = object, .kind = kind});
}

void Simulation::give(SimRequest* r) {
  if (r->part == part) return requests.give(r);
  give_back(r->part, r, Outbox::Item::Kind::request);
}

void Simulation::give(Staged* staged) {
  if (staged->part == part) return staging.give(staged);
  give_back(staged->part, staged, Outbox::Item::Kind::staged);
}

namespace {
template <typename T>
void prefetch_all(const T* object) {
  for (std::size_t at = 0; at < sizeof(T); at += 64)
    __builtin_prefetch(reinterpret_cast<const std::byte*>(object) + at, 1);
}

// Prefetches what another thread has written last and the events of the message will use. All of it is asked
// for at once, since each line takes as long as an event to come from another core.
void prefetch(const Outbox::Item& item) {
  using Kind = Outbox::Item::Kind;
  if (item.kind != Kind::message && item.kind != Kind::answer) return __builtin_prefetch(item.object, 1);
  prefetch_all(static_cast<const SimRequest*>(item.object));
  __builtin_prefetch(item.qp);
  prefetch_all(item.wr);
  if (item.data != nullptr) __builtin_prefetch(item.data);
}
}  // namespace

void Simulation::take(const Outbox::Item& item) {
  using Kind = Outbox::Item::Kind;
  switch (item.kind) {
    case Kind::message:
    case Kind::answer: {
      auto* const request = static_cast<SimRequest*>(item.object);
      request->sim = this;
      return queue.push_ordered(request, item.at, item.order);
    }
    case Kind::request:
      return requests.give(static_cast<SimRequest*>(item.object));
    case Kind::staged:
      return staging.give(static_cast<Staged*>(item.object));
  }
}

// Takes in what the other parts had for this one in a window that they have ended.
void Threads::take_in(Simulation& part, std::uint64_t window) const {
  for (const auto& other : parts_) {
    if (other->part == part.part) continue;
    const Outbox::Slot& box = other->outboxes[part.part].slots[window % Outbox::windows];
    for (const Outbox::Item& item : box.items) prefetch(item);
    for (const Outbox::Item& item : box.items) part.take(item);
    for (const SwitchPort::Notice& notice : box.notices) cluster_.nodes[notice.sender]->port.hear(notice);
  }
}

// ---- Windows -------------------------------------------------------------------------------------

Threads::Threads(Cluster& cluster, const std::vector<std::unique_ptr<Simulation>>& parts,
                 const std::atomic<bool>& is_interrupted, Books* books)
    : cluster_(cluster),
      parts_(parts),
      is_interrupted_(is_interrupted),
      books_(books),
      step_(cluster.timing.network / 2000),
      control_(16 * (cluster.timing.network / 1000)),
      allocations_(parts.size()),
      places_(std::min(parts.size(), usable_cores())) {}

void Threads::stop_workers(Simulation& part) {
  part.stopping = true;
  for (const auto& worker : cluster_.workers) {
    if (worker->home().part == part.part) worker->tell_to_stop();
  }
}

Result<RunEnd> Threads::run() {
  is_running_ = true;
  bool has_clients = false;
  for (const auto& part : parts_) has_clients = has_clients || part->live_clients > 0;
  for (const auto& part : parts_) {
    const auto is_own = [&part](const auto& worker) { return worker->home().part == part->part; };
    expect_frames(*part, static_cast<std::size_t>(std::ranges::count_if(cluster_.workers, is_own)));
    const OwnFrames frames(*part);
    if (!has_clients && !part->stopping) stop_workers(*part);
  }
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < places_.size(); ++i) others.emplace_back([this, i] { (void)run_parts(i); });
  const RunEnd end = run_parts(0);
  for (std::thread& other : others) other.join();
  is_running_ = false;
  if (resets_wanted_ > 0)
    books_->allocations = std::accumulate(allocations_.begin(), allocations_.end(), std::uint64_t{0});
  for (const auto& part : parts_) {
    if (part->gave_up.empty()) continue;
    return fail(ErrorCode::unsupported,
                fmt::format("--threads {}: {}, which the run without --threads can simulate",
                            cluster_.config.threads, part->gave_up));
  }
  return end;
}

void Threads::end_tasks() {
  for (const auto& worker : cluster_.workers) {
    const OwnFrames frames(*parts_[worker->home().part]);
    worker->end_task();
  }
}

RunEnd Threads::run_parts(std::size_t thread) {
  std::vector<Simulation*> own;
  for (std::size_t i = thread; i < parts_.size(); i += places_.size()) own.push_back(parts_[i].get());
  Position at;
  at.is_stopping = own.front()->stopping;
  while (true) {
    tell(thread, own, at);
    const Position before = at;
    Next next = Next::window;
    if (is_meeting(at)) {
      next = next_window(meet(at.window), &at);
    } else {
      await(at.window - 1);
      at.end = std::min(at.end + step_, at.control_at);
    }
    if (next == Next::deadlock || next == Next::given_up) return RunEnd::deadlock;
    if (next == Next::finished) return is_interrupted_ ? RunEnd::interrupted : RunEnd::finished;
    at.taken = before.window + (is_meeting(before) ? 1 : 0);
    ++at.window;
    for (Simulation* const part : own) {
      const OwnFrames frames(*part);
      for (std::uint64_t sent = before.taken; sent < at.taken; ++sent) take_in(*part, sent);
      if (at.resets_done != before.resets_done) reset(*part);
      if (at.is_stopping && !before.is_stopping) stop_workers(*part);
      run_window(*part, at);
    }
  }
}

void Threads::reset(const Simulation& part) {
  for (const auto& node : cluster_.nodes) {
    if (node->part == part.part) reset_counters(*node);
  }
  allocations_[part.part] = allocations(Parts(&parts_[part.part], 1));
  if (part.part == 0) books_->since = part.now();
}

void Threads::run_window(Simulation& part, const Position& at) {
  part.slot = at.window % Outbox::windows;
  part.next_sent[part.slot] = forever;
  // the others have read what this part had for them so many windows ago
  for (Outbox& box : part.outboxes) {
    box.slots[part.slot].items.clear();
    box.slots[part.slot].notices.clear();
  }
  while (Event* const event = part.queue.pop_until(at.end - 1)) event->fire(event);
}

void Threads::tell(std::size_t thread, const std::vector<Simulation*>& own, const Position& at) {
  Told& told = places_[thread].told[at.window % Outbox::windows];
  const std::uint64_t last = at.window % Outbox::windows, last_but_one = (at.window - 1) % Outbox::windows;
  static_cast<Sum&>(told) = Sum{};
  for (const Simulation* const part : own) {
    // what was sent earlier has been taken in
    const Nanos sent = std::min(part->next_sent[last], part->next_sent[last_but_one]);
    told.next = std::min({told.next, part->queue.earliest(), sent});
    told.tasks += part->live_tasks;
    told.clients += part->live_clients;
    told.has_client_on_core = told.has_client_on_core || part->has_client_on_core;
    told.has_given_up = told.has_given_up || !part->gave_up.empty();
  }
  told.resets = resets_wanted_.load(std::memory_order_relaxed);
  told.is_interrupted = is_interrupted_.load(std::memory_order_relaxed);
  // Either this thread sees that another one is about to sleep, or that one sees the window's end.
  told.windows.store(at.window + 1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  {
    const std::lock_guard lock(mutex_);
  }
  has_ended_.notify_all();
}

void Threads::sleep_until_ended(const Told& told, std::uint64_t window) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  std::unique_lock lock(mutex_);
  has_ended_.wait(lock, [&] { return told.windows.load(std::memory_order_seq_cst) > window; });
  lock.unlock();
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

// Waits until all threads have ended the window.
void Threads::await(std::uint64_t window) {
  constexpr int patience = 4096;  // looks, after which the thread sleeps: others may need its core
  for (const Place& place : places_) {
    const Told& told = place.told[window % Outbox::windows];
    int looks = 0;
    while (told.windows.load(std::memory_order_acquire) <= window && ++looks < patience)
      __builtin_ia32_pause();
    if (looks == patience) sleep_until_ended(told, window);
  }
}

// Waits until all threads have ended the window, and sums up what they tell.
Threads::Sum Threads::meet(std::uint64_t window) {
  await(window);
  Sum all;
  for (const Place& place : places_) {
    const Told& told = place.told[window % Outbox::windows];
    all.next = std::min(all.next, told.next);
    all.tasks += told.tasks;
    all.clients += told.clients;
    all.resets = std::max(all.resets, told.resets);
    all.is_interrupted = all.is_interrupted || told.is_interrupted;
    all.has_client_on_core = all.has_client_on_core || told.has_client_on_core;
    all.has_given_up = all.has_given_up || told.has_given_up;
  }
  return all;
}

// Whether all threads meet at the end of the window. They need not at the end of the others, which are half
// as long as a message takes at least: it arrives in the next window but one.
bool Threads::is_meeting(const Position& at) { return at.end == at.control_at || !at.has_begun; }

// Decides on the next window, equally in all threads, and on what concerns all nodes if the last window ended
// at a multiple of `control`.
Threads::Next Threads::next_window(const Sum& all, Position* at) const {
  if (all.has_given_up) return Next::given_up;
  Nanos begin = std::max(all.next, at->end);
  if (at->end == at->control_at) {
    if (all.tasks == 0) return Next::finished;
    at->resets_done = all.resets;
    if ((all.clients == 0 || all.is_interrupted) && !at->is_stopping) {
      at->is_stopping = true;
      begin = at->end;  // what the workers do about it
    } else if (all.next == forever) {
      return Next::deadlock;
    }
    at->control_at = (begin / control_ + 1) * control_;
  }
  // Until the first client is on a core, a window is one instant: which client begins first, and when,
  // concerns all of them (workloads::Driver::begin).
  at->has_begun = all.has_client_on_core || all.clients == 0;
  const Nanos span = !at->has_begun ? 1 : parts_.size() == 1 ? control_ : step_;
  at->end = begin >= at->control_at ? at->control_at : std::min(begin + span, at->control_at);
  return Next::window;
}

}  // namespace loch::fabric::sim
