// What clients do after a CAS that failed because other clients changed the word first: SMART's conflict
// avoidance (ASPLOS 2024, section 4.3), in place of a protocol's own back-off. The numbers are those of
// SMART's artifact, at 2.4 GHz.
#pragma once

#include <coroutine>
#include <cstdint>
#include <deque>
#include <memory>

#include "common/base/units.h"
#include "common/coro/task.h"
#include "common/fabric/fabric.h"
#include "common/kv/protocol.h"

namespace loch::kv {

struct ConflictConfig {
  enum class Kind : std::uint8_t {
    none,         // no wait: the next attempt follows at once
    exponential,  // waits double with each attempt, practically without a bound
    limited,      // waits double up to a limit, which is adapted to the share of retries
    // waits as with `limited`, but the number of coroutines that write at once is adapted before the limit is
    throttled,
  };
  Kind kind = Kind::throttled;
  Nanos start = 1'707;  // ns of the first wait; a random time up to this is added to each wait
  Nanos epoch = 0;      // ns between two adaptations of the limit and of the number of coroutines
  // if less than this share of all attempts were retries, waits get shorter or more coroutines may write
  double few = 0.1;
  // if more than this share of all attempts were retries, fewer coroutines may write or waits get longer
  double many = 0.5;
  static constexpr std::uint32_t most_coroutines = 64;
  // the limit of waits is at most start * 2^limit_doublings
  static constexpr std::uint32_t limit_doublings = 10;
  static constexpr std::uint32_t doublings = 20;  // Kind::exponential: a wait is at most start * 2^doublings
};

// The state of one client worker's conflict avoidance; used on the worker's thread only.
class Pacing {
 public:
  explicit Pacing(const ConflictConfig& config);
  // Waits before the next attempt, after attempt `attempt` (counted from 0) whose CAS failed because of
  // another client.
  [[nodiscard]] coro::Task<void> back_off(fabric::Worker* worker, std::uint32_t attempt);

  // An awaitable that a write awaits before it begins: until fewer than coroutines() writes of the worker are
  // under way. Writes get in in order of arrival.
  class [[nodiscard]] Entrance {
   public:
    explicit Entrance(Pacing& pacing) : pacing_(pacing) {}
    Entrance(const Entrance&) = delete;
    // If the coroutine still waits, its worker was killed: the destructor takes it out of the queue.
    ~Entrance();
    [[nodiscard]] bool await_ready() noexcept;
    void await_suspend(std::coroutine_handle<> waiter);
    void await_resume() const noexcept {}

   private:
    friend class Pacing;
    Pacing& pacing_;
    std::coroutine_handle<> waiter_;  // the coroutine that waits; null if none does
  };
  Entrance enter() { return Entrance(*this); }
  // Ends a write that awaited enter(), and lets the next waiting one begin.
  void leave(fabric::Worker& worker);

  [[nodiscard]] Nanos limit() const { return limit_; }
  [[nodiscard]] std::uint32_t coroutines() const { return coroutines_; }

 private:
  [[nodiscard]] static coro::Task<void> spin(fabric::Worker* worker, Nanos span);
  void adapt(Nanos now);
  void let_in(coro::RunQueue& queue);
  void tighten();
  void relax();

  const ConflictConfig config_;
  Nanos limit_ = 0;                // upper end, in ns, of the waits that double with each attempt
  std::uint32_t coroutines_ = 0;   // number of coroutines that may write at once
  std::uint32_t inside_ = 0;       // number of writes under way
  std::deque<Entrance*> waiting_;  // writes that wait until others have ended
  Nanos until_ = -1;               // time at which limit and coroutines may be adapted next; -1: no retry yet
  std::uint64_t retries_ = 0, operations_ = 0;  // numbers since the last adaptation
};

// While this object lives, back_off() (back_off.h) of its worker's operations waits as SMART's conflict
// avoidance says, instead of as the protocol's own back-off would. Made and destroyed on the worker's thread;
// a worker has at most one at a time.
class PacedWorker {
 public:
  // If `config` is null, this object does nothing: the protocol's own back-off stays.
  PacedWorker(fabric::Worker& worker, const ConflictConfig* config);
  ~PacedWorker();
  PacedWorker(const PacedWorker&) = delete;
  // The Pacing (state of the conflict avoidance) of a worker of this thread; null if it has none.
  [[nodiscard]] static Pacing* of(const fabric::Worker& worker);
  // A client that wraps `inner`, and whose PUTs, INSERTs and DELETEs wait until the worker's Pacing (state of
  // the conflict avoidance) lets them begin; `inner` itself if the worker has no Pacing.
  [[nodiscard]] std::unique_ptr<Client> paced(std::unique_ptr<Client> inner);

 private:
  fabric::Worker& worker_;
  std::unique_ptr<Pacing> pacing_;
};

}  // namespace loch::kv
