// The races (concurrent accesses to the same memory) behind the litmus tests of the rules that fabrics
// promise (fabric.h). Each function runs a race on a new cluster of the backend and returns how often it saw
// each outcome.
#pragma once

#include <cstdint>

#include "tests/support/backends.h"

namespace loch::fabric {

// Outcomes of a test of rule 1 of fabric.h (torn READs): one node WRITEs blocks of 512 bytes in which each
// word has the block's number in both halves, while another node READs the block.
struct TornCounts {
  std::uint64_t reads = 0, torn_blocks = 0, torn_words = 0, foreign_words = 0;
};
[[nodiscard]] TornCounts tear_blocks(const Backend& backend, int rounds);

// Outcomes of a test of rule 2 of fabric.h (atomics): two nodes FAA the same word. With `cpu_adds` the word's
// own node also adds to the word's upper half by load and store, which rule 2 does not protect.
struct AtomicCounts {
  std::uint64_t added = 0, final_sum = 0, repeated_old_words = 0;
};
[[nodiscard]] AtomicCounts race_atomics(const Backend& backend, int rounds, bool cpu_adds);

// Outcomes of a test of rule 3 of fabric.h (visibility of WRITEs): the target's memory is read directly after
// a WRITE's completion, and again after a READ on the same queue pair.
struct VisibilityCounts {
  std::uint64_t invisible_after_completion = 0, invisible_after_read = 0;
};
[[nodiscard]] VisibilityCounts write_then_peek(const Backend& backend, int rounds);
// Tests rule 3 of fabric.h (visibility of WRITEs): returns how many receive completions came before all bytes
// of their message were visible.
[[nodiscard]] std::uint64_t receive_before_data(const Backend& backend, int rounds);

// Outcomes of a test of rule 4 of fabric.h (order of requests on a queue pair): how often one request
// overtook another.
struct OrderCounts {
  std::uint64_t read_missed_write = 0, atomic_missed_write = 0, fenced_write_overtook = 0;
  std::uint64_t write_overtook_read = 0;  // allowed by rule 4 of fabric.h
};
[[nodiscard]] OrderCounts order_on_queue_pair(const Backend& backend, int rounds);

// Outcomes of a test of rule 5 of fabric.h (use of buffers): a buffer is changed right after a request with
// it was posted, before the completion.
struct BufferCounts {
  std::uint64_t inline_changed = 0, foreign = 0;
  std::uint64_t changed = 0;  // payloads, sent without inlining, that arrived changed: allowed
};
[[nodiscard]] BufferCounts reuse_buffer(const Backend& backend, int rounds);

// Outcomes of a test of rule 6 of fabric.h (losses): numbered messages over an unreliable transport.
struct LossCounts {
  std::uint64_t sent = 0, received = 0, duplicates = 0, damaged = 0, out_of_order = 0;
};
[[nodiscard]] LossCounts number_messages(const Backend& backend, Transport transport, std::uint64_t count);

// Outcomes of a test of rule 6 of fabric.h (losses): UC WRITEs of 1,024 bytes, whose target memory is read
// long after each has ended.
struct PlacementCounts {
  std::uint64_t whole = 0, nothing = 0, partial = 0;
};
[[nodiscard]] PlacementCounts place_unreliable(const Backend& backend, int rounds);

// Outcomes of a test of rule 6 of fabric.h (failures): `rounds` chains of two FAAs over RC, with a
// reconnection after each failure; counts which failed requests were executed.
struct FailureCounts {
  std::uint64_t succeeded = 0, failed_executed = 0, failed_not_executed = 0, flushed_executed = 0;
};
[[nodiscard]] FailureCounts fail_reliable(const Backend& backend, int rounds);

}  // namespace loch::fabric
