// Litmus tests of the rules that every fabric promises (fabric.h): each counts the outcomes of a small race
// (concurrent accesses to the same memory) over many rounds. Forbidden outcomes must not appear on any
// fabric. Outcomes that a rule allows, called weak, are only counted; litmus_weak_test.cc and
// litmus_sim_test.cc check that each can appear.
#include <array>

#include "common/fabric/memory.h"
#include "tests/fabric/litmus.h"

namespace loch::fabric {
namespace {

// Fails if the forbidden outcome `what` was seen.
void expect_none(const char* what, std::uint64_t seen) { EXPECT_EQ(seen, 0u) << what << " is forbidden"; }

TEST_P(FabricTest, LitmusRule1WordsAreNeverTorn) {
  const TornCounts counts = tear_blocks(GetParam(), 400);
  expect_none("a torn 8-byte word", counts.torn_words);
  expect_none("a word that nobody wrote", counts.foreign_words);
  EXPECT_GT(counts.reads, 0u);
  RecordProperty("torn_blocks", std::to_string(counts.torn_blocks));
}

TEST_P(FabricTest, LitmusRule2NicAtomicsLoseNothingAmongThemselves) {
  const AtomicCounts counts = race_atomics(GetParam(), 300, false);
  EXPECT_EQ(counts.final_sum, counts.added);
  expect_none("two FAAs with one old word", counts.repeated_old_words);
}

TEST_P(FabricTest, LitmusRule3AReadBehindTheWriteMakesItVisible) {
  const VisibilityCounts counts = write_then_peek(GetParam(), 300);
  expect_none("a WRITE still invisible after a READ behind it", counts.invisible_after_read);
  RecordProperty("invisible_after_completion", std::to_string(counts.invisible_after_completion));
}

TEST_P(FabricTest, LitmusRule3AReceiveCompletionMakesItsDataVisible) {
  expect_none("a receive completion before its data", receive_before_data(GetParam(), 300));
}

TEST_P(FabricTest, LitmusRule4OrderOnOneQueuePair) {
  const OrderCounts counts = order_on_queue_pair(GetParam(), 300);
  expect_none("a READ that misses the WRITE before it", counts.read_missed_write);
  expect_none("an atomic that misses the WRITE before it", counts.atomic_missed_write);
  expect_none("a fenced WRITE that overtook a READ", counts.fenced_write_overtook);
  RecordProperty("write_overtook_read", std::to_string(counts.write_overtook_read));
}

TEST_P(FabricTest, LitmusRule5InlineDataIsTakenAtThePost) {
  const BufferCounts counts = reuse_buffer(GetParam(), 200);
  expect_none("inline data that changed after the post", counts.inline_changed);
  expect_none("data that is neither the old nor the new", counts.foreign);
  RecordProperty("late_data", std::to_string(counts.changed));
}

TEST_P(FabricTest, LitmusRule6NothingIsLostWithoutFaults) {
  for (const Transport transport : {Transport::uc, Transport::ud}) {
    const LossCounts counts = number_messages(GetParam(), transport, 200);
    EXPECT_EQ(counts.received, counts.sent) << name(transport);
    expect_none("a message received twice", counts.duplicates);
    expect_none("a damaged message", counts.damaged);
    if (transport == Transport::uc) expect_none("UC out of order", counts.out_of_order);
  }
}

}  // namespace
}  // namespace loch::fabric
