// How a sleeping worker is woken by the event that it waits for. Used only where workers share cores: a
// worker with a core of its own never sleeps, and nobody reads its doorbell.
//
//   owner                                           a writer of its memory, or a sender of a message
//   publishes what it waits for; state = asleep     makes the change
//   fence; checks once more                         fence; is state asleep, and is this the awaited change?
//   sleeps while state is asleep                    state = awake, and wakes the owner
// By the two fences the owner sees the change, or the writer sees that the owner is asleep. A writer in a
// process whose workers do not share cores reads no doorbells and does not wake sleeping workers of another
// process, which is why sleeps are short.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "common/base/units.h"

namespace loch::fabric::shm {

// A doorbell lies in memory that all processes of a job map; all bytes zero is a valid state.
struct alignas(64) Doorbell {
  enum State : std::uint32_t { awake, asleep };
  static constexpr std::uint32_t every_region = ~std::uint32_t{0};
  std::atomic<std::uint32_t> state;
  // The number of the region of the owner's node whose bytes [begin, end) the owner waits for; every_region:
  // the owner waits for a change of any byte of any region.
  std::atomic<std::uint32_t> region;
  std::atomic<std::uint64_t> begin, end;

  // To be called by the owner: publishes that it waits for a change of the bytes [from, to) of region
  // `watched`.
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

  // Whether the owner sleeps and waits for a change of the given bytes. Any thread may ask, after it has made
  // the change and then executed a memory fence.
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
