// How a worker that sleeps is woken by what it waits for. Used only where workers share cores: on cores
// of its own a worker polls, and nobody looks at its doorbell.
//
//   owner                                        who changes its memory, or sends it a message
//   publishes what it waits for; state = asleep  changes it
//   fence; looks once more                       fence; state asleep, and this is what it waits for:
//   sleeps while state is asleep                 state = awake, and wakes it
// One of the two sees the other. A process that does not share cores leaves the fence out, and may miss
// a sleeper of another process: sleeps are short.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "common/base/units.h"

namespace loch::fabric::shm {

// In memory that all processes of a job map; zeroed memory is a valid one.
struct alignas(64) Doorbell {
  enum State : std::uint32_t { awake, asleep };
  static constexpr std::uint32_t every_region = ~std::uint32_t{0};
  std::atomic<std::uint32_t> state;
  // Bytes of one region of its node, or of all of them.
  std::atomic<std::uint32_t> region;
  std::atomic<std::uint64_t> begin, end;

  // Owner.
  void arm(std::uint32_t watched, std::uint64_t from, std::uint64_t to) {
    region.store(watched, std::memory_order_relaxed);
    begin.store(from, std::memory_order_relaxed);
    end.store(to, std::memory_order_relaxed);
    state.store(asleep, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void disarm() { state.store(awake, std::memory_order_relaxed); }
  void sleep(Nanos most) {
    const timespec span{most / 1'000'000'000, most % 1'000'000'000};
    syscall(SYS_futex, &state, FUTEX_WAIT, asleep, &span, nullptr, 0);
  }

  // Anyone, after a fence behind the change.
  [[nodiscard]] bool awaits(std::uint32_t changed, std::uint64_t from, std::uint64_t to) const {
    if (state.load(std::memory_order_acquire) != asleep) return false;
    const std::uint32_t watched = region.load(std::memory_order_relaxed);
    return watched == every_region || (watched == changed && from < end.load(std::memory_order_relaxed) &&
                                       begin.load(std::memory_order_relaxed) < to);
  }
  void ring() {
    if (state.exchange(awake, std::memory_order_relaxed) == asleep) {
      syscall(SYS_futex, &state, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
  }
};
static_assert(sizeof(Doorbell) == 64);

}  // namespace loch::fabric::shm
