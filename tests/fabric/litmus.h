// The races behind the litmus tests. Each runs on a fresh cluster of the backend and returns how
// often each outcome was seen.
#pragma once

#include <cstdint>

#include "tests/support/backends.h"

namespace loch::fabric {

// Rule 1. One node WRITEs 512-byte blocks whose words all say the block's number, twice over in one
// word; another READs the block meanwhile.
struct TornCounts {
  std::uint64_t reads = 0, torn_blocks = 0, torn_words = 0, foreign_words = 0;
};
[[nodiscard]] TornCounts tear_blocks(const Backend& backend, int rounds);

// Rule 2. Two nodes FAA one word; with `cpu_adds` its own node's CPU adds to the word's upper half by
// load and store as well, which rule 2 does not protect.
struct AtomicCounts {
  std::uint64_t added = 0, final_sum = 0, repeated_old_words = 0;
};
[[nodiscard]] AtomicCounts race_atomics(const Backend& backend, int rounds, bool cpu_adds);

// Rule 3. After a WRITE's completion, and again after a READ behind it, the target's memory is looked
// at directly.
struct VisibilityCounts {
  std::uint64_t invisible_after_completion = 0, invisible_after_read = 0;
};
[[nodiscard]] VisibilityCounts write_then_peek(const Backend& backend, int rounds);
// Times that a receive completion came before all bytes of its message could be seen.
[[nodiscard]] std::uint64_t receive_before_data(const Backend& backend, int rounds);

// Rule 4.
struct OrderCounts {
  std::uint64_t read_missed_write = 0, atomic_missed_write = 0, fenced_write_overtook = 0;
  std::uint64_t write_overtook_read = 0;  // allowed
};
[[nodiscard]] OrderCounts order_on_queue_pair(const Backend& backend, int rounds);

// Rule 5. A buffer is changed right after the post, without waiting for the completion.
struct BufferCounts {
  std::uint64_t inline_changed = 0, foreign = 0;
  std::uint64_t changed = 0;  // allowed when not inline
};
[[nodiscard]] BufferCounts reuse_buffer(const Backend& backend, int rounds);

// Rule 6. Numbered messages over an unreliable transport.
struct LossCounts {
  std::uint64_t sent = 0, received = 0, duplicates = 0, damaged = 0, out_of_order = 0;
};
[[nodiscard]] LossCounts number_messages(const Backend& backend, Transport transport, std::uint64_t count);

// Rule 6. UC WRITEs of 1,024 bytes, each looked at when it has long ended.
struct PlacementCounts {
  std::uint64_t whole = 0, nothing = 0, partial = 0;
};
[[nodiscard]] PlacementCounts place_unreliable(const Backend& backend, int rounds);

// Rule 6. FAAs over RC until each of them fails or `rounds` are done, the connection made anew each time.
struct FailureCounts {
  std::uint64_t succeeded = 0, failed_executed = 0, failed_not_executed = 0, flushed_executed = 0;
};
[[nodiscard]] FailureCounts fail_reliable(const Backend& backend, int rounds);

}  // namespace loch::fabric
