// Tests index words, the reuse of entries, and tables that fill up while keys are moved.
#include "common/cuckoo/table.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "common/cuckoo/entry_pool.h"

namespace loch::cuckoo {
namespace {

TEST(IndexWord, FieldsComeBackAndNoWordIsEqual) {
  const std::uint64_t word = IndexWord::occupied(0xABC'DEF1, 0x123456, 0x2A5);
  EXPECT_TRUE(IndexWord::is_stored(word));
  EXPECT_FALSE(IndexWord::is_empty(word));
  EXPECT_EQ(IndexWord::entry(word), 0xABC'DEF1u);
  EXPECT_EQ(IndexWord::filter(word), 0x2A5u);
  EXPECT_NE(word, IndexWord::occupied(0xABC'DEF1, 0x123457, 0x2A5));
  EXPECT_TRUE(IndexWord::is_empty(IndexWord::empty(7)));
  EXPECT_NE(IndexWord::empty(7), IndexWord::empty(8));
  EXPECT_FALSE(IndexWord::is_stored(0));
}

TEST(EntryPool, RetiredEntriesRestStrictlyUntilTheirTime) {
  EntryPool pool(3, 1);
  EXPECT_EQ(pool.allocate(0), 1u);
  EXPECT_EQ(pool.allocate(0), 2u);
  EXPECT_FALSE(pool.allocate(0).has_value());
  pool.retire(0, 100);
  pool.retire(1, 110);
  EXPECT_FALSE(pool.allocate(100).has_value()) << "at its time it is not free yet";
  EXPECT_EQ(pool.allocate(101), 0u);
  EXPECT_FALSE(pool.allocate(110).has_value());
  pool.release(2);
  EXPECT_EQ(pool.allocate(0), 2u) << "nobody else knew it";
}

using Key = std::uint64_t;

// Owns a cuckoo table whose words lie in a vector instead of registered memory.
class Owner final : public TableMemory {
 public:
  Owner(std::uint64_t slots, std::uint32_t functions, std::uint32_t row)
      : family_({.nodes = 2,
                 .slots_per_node = slots,
                 .functions = functions,
                 .coupling = Coupling::partially_coupled},
                7),
        row_(row),
        words_(slots, IndexWord::empty(0)),
        table_(family_, row, sizeof(Key), *this) {}

  [[nodiscard]] std::uint64_t word(std::uint64_t slot) const override { return words_[slot]; }
  void read_key(std::uint32_t entry, std::byte* out) const override {
    std::memcpy(out, &keys_[entry], sizeof(Key));
  }
  [[nodiscard]] bool has_key(std::uint32_t entry, std::span<const std::byte> key) const override {
    return std::memcmp(&keys_[entry], key.data(), sizeof(Key)) == 0;
  }

  [[nodiscard]] bool is_mine(Key key) const { return hash(key).candidate(0).node == row_; }
  [[nodiscard]] Table::Lookup find(Key key) {
    KeyHash hashed = hash(key);
    return table_.look_up(hashed, bytes_of(key));
  }
  // Inserts a key that is absent. Returns false if the table is full; the table is then unchanged.
  bool insert(Key key) {
    KeyHash hashed = hash(key);
    const Table::Lookup found = table_.look_up(hashed, bytes_of(key));
    EXPECT_FALSE(found.slot.has_value());
    std::uint64_t slot = found.free.value_or(0);
    if (!found.free) {
      const std::vector<std::uint64_t> before = words_;
      const Table::Moves moves = table_.make_room(hashed);
      EXPECT_EQ(words_, before) << "planning stores nothing";
      if (moves.slots.empty()) return false;
      for (std::size_t i = moves.slots.size() - 1; i > 0; --i) {
        words_[moves.slots[i]] = words_[moves.slots[i - 1]];
        check_all();  // every key must be in the table at every moment
        words_[moves.slots[i - 1]] = IndexWord::empty(++stores_);
        check_all();
      }
      slot = moves.slots.front();
      EXPECT_LT(hashed.rank_of({row_, slot}), family_.shape().functions);
    }
    keys_.push_back(key);
    inserted_.insert(key);
    words_[slot] = IndexWord::occupied(static_cast<std::uint32_t>(keys_.size() - 1), ++stores_, 0);
    return true;
  }
  void check_all() {
    for (const Key key : inserted_) ASSERT_TRUE(find(key).slot.has_value()) << key;
  }

 private:
  [[nodiscard]] static std::span<const std::byte> bytes_of(const Key& key) {
    return {reinterpret_cast<const std::byte*>(&key), sizeof key};
  }
  [[nodiscard]] KeyHash hash(const Key& key) const { return family_.hash(bytes_of(key)); }

  HashFamily family_;
  std::uint32_t row_;
  std::vector<std::uint64_t> words_;
  std::vector<Key> keys_;
  std::set<Key> inserted_;
  std::uint64_t stores_ = 0;
  Table table_;
};

TEST(Table, KeysStayFindableWhileOthersAreMovedForNewOnes) {
  for (const std::uint32_t row : {0u, 1u}) {
    Owner owner(60, 3, row);
    std::uint32_t inserted = 0;
    for (Key key = 0; key < 1000 && inserted < 51; ++key) {  // 51 of 60 slots: a load of 0.85
      if (!owner.is_mine(key)) continue;
      ASSERT_TRUE(owner.insert(key)) << "after " << inserted;
      ++inserted;
    }
    owner.check_all();
    Key absent = 5000;
    while (!owner.is_mine(absent)) ++absent;
    EXPECT_FALSE(owner.find(absent).slot.has_value());
  }
}

TEST(Table, AFullTableSaysSoAndIsLeftAlone) {
  Owner owner(4, 2, 0);
  std::uint32_t inserted = 0;
  bool was_full = false;
  for (Key key = 0; key < 200; ++key) {
    if (!owner.is_mine(key)) continue;
    const bool fits = owner.insert(key);
    if (fits) ++inserted;
    was_full |= !fits;
    owner.check_all();
  }
  EXPECT_TRUE(was_full);
  EXPECT_LE(inserted, 4u);
  EXPECT_GE(inserted, 2u);
}

TEST(Table, AMissNamesTheFirstFreeCandidate) {
  Owner owner(16, 3, 1);
  Key key = 0;
  while (!owner.is_mine(key)) ++key;
  const Table::Lookup missing = owner.find(key);
  EXPECT_FALSE(missing.slot.has_value());
  ASSERT_TRUE(missing.free.has_value());
  EXPECT_EQ(missing.compared, 0u);
  ASSERT_TRUE(owner.insert(key));
  const Table::Lookup found = owner.find(key);
  EXPECT_EQ(found.slot, missing.free);
  EXPECT_EQ(found.compared, 1u);
}

}  // namespace
}  // namespace loch::cuckoo
