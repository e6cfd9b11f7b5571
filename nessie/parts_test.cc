// Tests index words, entry layouts and the data table separately.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "common/fabric/memory.h"
#include "nessie/data_table.h"
#include "nessie/layout.h"
#include "nessie/word.h"

namespace loch::nessie {
namespace {

TEST(Word, FieldsOf2017Hardened) {
  const WordFormat format(Layout::y2017, hardened(), 7);
  const EntryId id{0xAB, 0x234'5678, 0x2AAA, 0xD};
  const Word word = format.occupied(id, 0x55, true, format.initial_empty());
  EXPECT_EQ(word, (Word{1} << 63) | (Word{0x55} << 55) | (Word{1} << 54) | (Word{0x2AAA} << 40) |
                      (Word{0xD} << 36) | (Word{0x234'5678} << 8) | 0xAB);
  EXPECT_EQ(format.entry(word), id);
  EXPECT_EQ(format.filter(word), 0x55u);
  EXPECT_TRUE(format.is_pending(word));
  EXPECT_FALSE(format.is_pending(format.committed(word)));
  EXPECT_FALSE(format.is_empty(word));
  const Word empty = format.emptied(word);
  EXPECT_TRUE(format.is_empty(empty));
  EXPECT_FALSE(format.is_tagged(empty));
  EXPECT_FALSE(format.is_pending(empty));
  EXPECT_EQ(format.entry(empty), id);  // a unique EMPTY word names the slot's last occupant
  EXPECT_TRUE(format.is_tagged(format.tagged(word)));
  EXPECT_NE(format.tagged(word), empty);
  EXPECT_EQ(format.entry(format.tagged(word)), id);
}

TEST(Word, EmptyWordsOf2017PublishedAreAllEqual) {
  const WordFormat format(Layout::y2017, published_2017(), 7);
  const Word one = format.occupied({1, 2, 9}, 3, false, format.initial_empty());
  EXPECT_EQ(one, (Word{1} << 63) | (Word{3} << 55) | (Word{2} << 8) | 1);  // bits 40 to 54 are zero
  EXPECT_EQ(format.emptied(one), format.initial_empty());
}

TEST(Word, VersionOf2015GrowsWithEveryUpdate) {
  const WordFormat format(Layout::y2015, published_2015(), 7);
  Word word = format.initial_empty();
  EXPECT_TRUE(format.is_empty(word));
  for (std::uint32_t i = 1; i <= 70'000; ++i) {
    const Word next = i % 2 == 1 ? format.occupied({5, i, 0}, 0x7F, false, word) : format.emptied(word);
    ASSERT_EQ((next >> 47) & 0xFFFF, i & 0xFFFF);
    ASSERT_EQ(format.is_empty(next), i % 2 == 0);
    if (i % 2 == 1) {
      ASSERT_EQ(format.entry(next), (EntryId{5, i, 0}));
      ASSERT_EQ(format.filter(next), 0x7Fu);
    }
    word = next;
  }
  EXPECT_TRUE(WordFormat::is_stored(word));
}

TEST(Word, EveryFilterWidthRoundTrips) {
  for (const auto& [layout, rules] :
       {std::pair{Layout::y2017, hardened()}, std::pair{Layout::y2017, published_2017()},
        std::pair{Layout::y2015, published_2015()}}) {
    for (std::uint32_t bits = 0; bits <= WordFormat::most_filter_bits(layout, rules, 15); ++bits) {
      const WordFormat format(layout, rules, bits);
      const std::uint64_t filter = (std::uint64_t{1} << bits) - 1;
      const auto last = static_cast<std::uint32_t>(format.most_entries() - 1);
      const Word word = format.occupied({14, last, 1}, filter, false, format.initial_empty());
      EXPECT_EQ(format.filter(word), filter);
      EXPECT_EQ(format.entry(word).node, 14u);
      EXPECT_EQ(format.entry(word).index, last);
      EXPECT_FALSE(format.is_empty(word));
    }
  }
}

// A wider DTI (the field of an index word for the node's number) names more nodes, of which each has fewer
// entries; every other field keeps its place.
TEST(Word, ANodesNumberMayBeWiderThanInThePaper) {
  for (const Rules& rules : {hardened(), published_2017()}) {
    const WordFormat narrow(Layout::y2017, rules, 7), wide(Layout::y2017, rules, 7, 12);
    EXPECT_EQ(wide.most_entries(), narrow.most_entries() >> 4);
    const auto last = static_cast<std::uint32_t>(wide.most_entries() - 1);
    const std::uint32_t generation = wide.has_generation() ? 0x2AAA : 0;
    const EntryId id{0xFED, last, generation, wide.has_incarnation() ? 0xDU : 0};
    const Word word = wide.occupied(id, 0x55, true, wide.initial_empty());
    EXPECT_EQ(wide.entry(word), id);
    EXPECT_EQ(wide.filter(word), 0x55U);
    EXPECT_TRUE(wide.is_pending(word) && WordFormat::is_stored(word) && !wide.is_empty(word));
    constexpr int above_index = 36;
    const Word other =
        narrow.occupied({0x1, 2, generation, id.incarnation}, 0x55, true, narrow.initial_empty());
    if (wide.has_incarnation()) EXPECT_EQ(word >> above_index, other >> above_index);
  }
}

TEST(Word, GenerationsNeverReturnToZero) {
  const WordFormat format(Layout::y2017, hardened(), 7);
  std::set<std::uint32_t> seen;
  std::uint32_t generation = 0;
  for (int i = 0; i < 16'383; ++i) {
    generation = format.next_generation(generation);
    EXPECT_NE(generation, 0u);
    EXPECT_TRUE(seen.insert(generation).second);
  }
  EXPECT_EQ(format.next_generation(generation), 1u);
}

TEST(Layout, SizesOfThePaper) {
  // Keys of 128 bytes make a header of 152 bytes; values of 16 KiB make entries of 16,544 bytes.
  const EntryLayout entry(128, 16'384);
  EXPECT_EQ(entry.header_bytes(), 152u);
  EXPECT_EQ(entry.full_bytes(), 16'544u);
  EXPECT_EQ(entry.stride() % 64, 0u);
  EXPECT_GE(entry.stride(), entry.full_bytes());
  // the header ends with the meta word, which has the watermark bit that a client polls for
  EXPECT_EQ(entry.meta_at() + 8, entry.header_bytes());
  EXPECT_EQ(entry.tail_at() + 8, entry.full_bytes());
}

TEST(Layout, OddSizesStayAligned) {
  for (std::uint32_t key = 1; key < 40; ++key) {
    for (std::uint32_t value = 1; value < 40; ++value) {
      const EntryLayout entry(key, value);
      for (const std::uint32_t at :
           {entry.prev_at(), entry.stamp_at(), entry.meta_at(), entry.value_at(), entry.tail_at()}) {
        ASSERT_EQ(at % 8, 0u);
      }
      ASSERT_GE(entry.prev_at(), key);
      ASSERT_GE(entry.tail_at() - entry.value_at(), value);
    }
  }
}

TEST(Layout, ElisionKeepsHeaderStampAndTail) {
  const EntryLayout entry(128, 16'384);
  const fabric::Elision elision = entry.elision(32);
  ASSERT_TRUE(elision.on());
  EXPECT_EQ(elision.entry_bytes, entry.stride());
  EXPECT_EQ(elision.keep_head, 184u);
  EXPECT_EQ(elision.keep_tail % 8, 0u);
  EXPECT_EQ(entry.stride() - elision.keep_tail, entry.tail_at());
  EXPECT_FALSE(entry.elision(16'384).on());
  EXPECT_FALSE(EntryLayout(8, 24).elision(20).on());  // the value is too small to be stored in part
}

TEST(Meta, RoundTrips) {
  const EntryMeta meta{.is_valid = true, .kind = EntryKind::copy, .source_rank = 3, .generation = 0xFFFF};
  const EntryMeta back = EntryMeta::unpack(meta.pack());
  EXPECT_TRUE(back.is_valid);
  EXPECT_EQ(back.kind, EntryKind::copy);
  EXPECT_EQ(back.source_rank, 3);
  EXPECT_EQ(back.generation, 0xFFFF);
  EXPECT_EQ(EntryMeta::unpack(0).kind, EntryKind::free);
}

class DataTableTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t entries = 12;
  EntryLayout layout{8, 8};
  WordFormat format{Layout::y2017, hardened(), 7};
  std::vector<std::uint64_t> memory = std::vector<std::uint64_t>(entries * layout.stride() / 8);
  fabric::Region region{3, 0, "data", reinterpret_cast<std::byte*>(memory.data()), entries* layout.stride(),
                        {}};

  DataTable table(std::uint32_t first, std::uint32_t step, std::uint32_t preloaded, Nanos margin = 10,
                  bool honours = true) {
    return DataTable(region, layout, format, {first, step, entries, preloaded}, margin,
                     {.honours_expiry = honours}, 0);
  }
  void use(const EntryId& id) {
    const EntryMeta meta{
        .is_valid = true, .kind = EntryKind::put, .generation = static_cast<std::uint16_t>(id.generation)};
    fabric::store_word_release(region.at(id.index * layout.stride() + layout.meta_at()), meta.pack());
    stamp(id, 0);
  }
  void stamp(const EntryId& id, Nanos at, bool is_suspicion = false) {
    const Word word = at == 0 ? 0 : Stamp{at, is_suspicion, id.generation, id.incarnation}.pack();
    fabric::store_word_release(region.at(id.index * layout.stride() + layout.stamp_at()), word);
  }
};

TEST_F(DataTableTest, OwnersShareTheNodeWithoutOverlap) {
  std::set<std::uint32_t> taken;
  for (std::uint32_t first = 0; first < 5; ++first) {
    DataTable mine = table(first, 5, 3);  // entries 0, 1 and 2 are preloaded
    while (const auto id = mine.allocate(0)) {
      EXPECT_EQ(id->node, 3u);
      EXPECT_EQ(id->index % 5, first);
      EXPECT_GE(id->index, 3u);
      EXPECT_TRUE(taken.insert(id->index).second);
    }
  }
  EXPECT_EQ(taken.size(), entries - 3);
}

TEST_F(DataTableTest, ReusesStrictlyAfterDeadlineAndMargin) {
  DataTable mine = table(0, 1, 0);
  std::vector<EntryId> ids;
  while (const auto id = mine.allocate(0)) {
    ids.push_back(*id);
    use(*id);
  }
  ASSERT_EQ(ids.size(), entries);
  stamp(ids[4], 1'024'000);                            // deadlines are stored in units of 1,024 ns
  EXPECT_FALSE(mine.allocate(1'024'000).has_value());  // now is the deadline: too early
  EXPECT_FALSE(mine.allocate(1'024'010).has_value());  // now is deadline + 10 ns of clock margin: too early
  const auto again = mine.allocate(1'024'011);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->index, ids[4].index);
  EXPECT_EQ(again->generation, ids[4].generation + 1);
  EXPECT_FALSE(mine.allocate(2'000'000).has_value());  // no entry is reused early, even if the table is full
  EXPECT_GE(mine.counts().exhausted, 3u);
}

// An entry that was released without ever being linked keeps its generation. Otherwise each failed MIGRATE
// (move of a key) in a full table would use up a generation without waiting for the expiry period, and the 14
// bits would soon wrap around, so that old words would match again (known fault H16,
// docs/protocols/nessie.md).
TEST_F(DataTableTest, AReleasedEntryComesBackAtOnceAndUsesUpNoGeneration) {
  DataTable mine = table(0, 1, 0);
  const auto first = mine.allocate(0);
  for (int i = 0; i < 40'000; ++i) {
    mine.release(*first);
    const auto again = mine.allocate(0);
    ASSERT_EQ(*again, *first);
  }
  use(*first);
  stamp(*first, 5'000);
  while (const auto id = mine.allocate(0)) use(*id);
  const auto next = mine.allocate(1'000'000);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->generation, first->generation + 1);
}

// Case A2 of docs/protocols/nessie.md: a stamp (the mark that an entry has left the index) that is repeated
// after an error, or that arrives after the entry was reused, must free nothing.
TEST_F(DataTableTest, AStampOfAnotherIncarnationMarksNothing) {
  DataTable mine = table(0, 1, 0);
  std::vector<EntryId> ids;
  while (const auto id = mine.allocate(0)) {
    ids.push_back(*id);
    use(*id);
  }
  stamp(ids[4], 1'000);
  const auto again = mine.allocate(1'000'000);
  ASSERT_TRUE(again.has_value());
  ASSERT_EQ(again->index, ids[4].index);
  use(*again);
  stamp(ids[4], 1'000);  // the stamp is written a second time
  EXPECT_FALSE(mine.allocate(2'000'000).has_value());
  EXPECT_EQ(mine.counts().stamps_dropped, 1u);
  // The late stamp (mark that the entry left the index) may have overwritten a correct one, so the owner must
  // check the entry.
  EXPECT_EQ(mine.take_doubt(), again);
  EXPECT_FALSE(mine.take_doubt().has_value());
  EntryId of_another_incarnation = *again;
  of_another_incarnation.incarnation = 1;
  stamp(of_another_incarnation, 1'000);
  EXPECT_FALSE(mine.allocate(3'000'000).has_value());
  EXPECT_EQ(mine.counts().stamps_dropped, 2u);
}

TEST_F(DataTableTest, ASuspicionFreesNothingByItself) {
  DataTable mine = table(0, 1, 0);
  std::vector<EntryId> ids;
  while (const auto id = mine.allocate(0)) {
    ids.push_back(*id);
    use(*id);
  }
  stamp(ids[2], 1'000, true);
  EXPECT_FALSE(mine.allocate(1'000'000).has_value());
  EXPECT_EQ(mine.take_doubt(), ids[2]);
}

TEST(StampTest, DeadlinesAreCountedModulo417Days) {
  constexpr Nanos day = 86'400'000'000'000;
  for (const Nanos at : {Nanos{1'024}, 400 * day, 417 * day + 5'120'000, 20'000 * day}) {
    const Word word = Stamp{at, false, 7, 3}.pack();
    EXPECT_FALSE(Stamp::is_live(word));
    for (const Nanos now : {at - 100 * day, at, at + 100 * day}) {
      const Stamp stamp = Stamp::unpack(word, now);
      EXPECT_GE(stamp.deadline, at);
      EXPECT_LT(stamp.deadline, at + 1'024);
      EXPECT_EQ(stamp.generation, 7u);
      EXPECT_EQ(stamp.incarnation, 3u);
    }
  }
}

TEST_F(DataTableTest, MutantReusesEarly) {
  DataTable mine = table(0, 1, 0, 10, false);
  const auto id = mine.allocate(0);
  use(*id);
  stamp(*id, 1'000'000);
  const auto again = mine.allocate(1);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->index, id->index);
}

}  // namespace
}  // namespace loch::nessie
