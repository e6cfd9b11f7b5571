// What clients do about words that they swap in vain because others swapped them first: SMART's conflict
// avoidance (ASPLOS 2024, section 4.3), in place of a protocol's own back-off. The numbers are those of its
// artifact, at 2.4 GHz.
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
    none,         // the next attempt follows at once
    exponential,  // a wait that doubles with each attempt, practically without a bound
    limited,      // … up to a limit that follows the share of retries
    throttled,    // … and the number of coroutines that write at once follows it first
  };
  Kind kind = Kind::throttled;
  Nanos start = 1'707;  // the first wait, and the span of the random time that is added to each
  Nanos epoch = 0;      // how often limit and coroutines are adapted
  double few = 0.1;     // share of retries in all attempts below which they are relaxed
  double many = 0.5;    // … and above which they are tightened
  static constexpr std::uint32_t most_coroutines = 64;
  static constexpr std::uint32_t limit_doublings = 10;  // of the largest limit, from `start`
  static constexpr std::uint32_t doublings = 20;        // … where the limit does not follow anything
};

// The state of one client worker, which uses it on its own thread alone.
class Pacing {
 public:
  explicit Pacing(const ConflictConfig& config);
  // Waits after attempt `attempt`, counted from 0, which lost a swap.
  [[nodiscard]] coro::Task<void> back_off(fabric::Worker* worker, std::uint32_t attempt);

  // Waits, in order of arrival, until one operation more may write.
  class [[nodiscard]] Entrance {
   public:
    explicit Entrance(Pacing& pacing) : pacing_(pacing) {}
    Entrance(const Entrance&) = delete;
    // While the coroutine waits, this is the end of one that never runs again: its worker was killed.
    ~Entrance();
    [[nodiscard]] bool await_ready() noexcept;
    void await_suspend(std::coroutine_handle<> waiter);
    void await_resume() const noexcept {}

   private:
    friend class Pacing;
    Pacing& pacing_;
    std::coroutine_handle<> waiter_;  // null: nobody waits
  };
  Entrance enter() { return Entrance(*this); }
  // Ends an operation that entered.
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
  Nanos limit_ = 0;                             // upper end of the wait that doubles
  std::uint32_t coroutines_ = 0;                // that may write at once
  std::uint32_t inside_ = 0;                    // operations that write
  std::deque<Entrance*> waiting_;               // operations that wait until others leave
  Nanos until_ = -1;                            // end of the present epoch; -1: none has begun
  std::uint64_t retries_ = 0, operations_ = 0;  // in this epoch
};

// While it lives, what its worker's operations do after lost swaps: back_off() of back_off.h waits as it
// says, in place of a protocol's own back-off. Made and destroyed on the worker's thread; one at a time of a
// worker.
class PacedWorker {
 public:
  // Null `config`: the protocol's own back-off stays.
  PacedWorker(fabric::Worker& worker, const ConflictConfig* config);
  ~PacedWorker();
  PacedWorker(const PacedWorker&) = delete;
  // The state of a worker of this thread; null: it has none.
  [[nodiscard]] static Pacing* of(const fabric::Worker& worker);
  // A client whose PUTs, INSERTs and DELETEs pass through the worker's Pacing, or `inner` itself if there is
  // none.
  [[nodiscard]] std::unique_ptr<Client> paced(std::unique_ptr<Client> inner);

 private:
  fabric::Worker& worker_;
  std::unique_ptr<Pacing> pacing_;
};

}  // namespace loch::kv
