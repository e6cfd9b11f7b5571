// Waits for a random time below an upper end that doubles with each attempt.
#include "common/kv/back_off.h"

#include <algorithm>

#include "common/kv/conflicts.h"

namespace loch::kv {
namespace {

// Longest wait, in ns, during which the core stays occupied. For a wait this short, yielding the core would
// take longer than the wait itself.
constexpr Nanos longest_spin = 50'000;

coro::Task<void> wait_with_jitter(fabric::Worker* worker, Nanos start, Nanos cap, std::uint32_t attempt) {
  Nanos upper = std::min(start, cap);
  for (; attempt > 0 && upper < cap; --attempt) upper = std::min(2 * upper, cap);
  const auto span = static_cast<Nanos>(worker->rng().below(static_cast<std::uint64_t>(upper))) + 1;
  const Nanos until = worker->now() + span;
  if (span <= longest_spin) {
    co_await worker->spin_until(until);
  } else {
    co_await worker->sleep_until(until);
  }
}

}  // namespace

coro::Task<void> back_off(fabric::Worker* worker, Nanos start, Nanos cap, std::uint32_t attempt) {
  if (Pacing* const pacing = PacedWorker::of(*worker)) return pacing->back_off(worker, attempt);
  return wait_with_jitter(worker, start, cap, attempt);
}

}  // namespace loch::kv
