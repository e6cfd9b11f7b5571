// Tests hash functions, path search and placement.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "common/cuckoo/hash_family.h"
#include "common/cuckoo/path.h"
#include "common/cuckoo/placement.h"

namespace loch::cuckoo {
namespace {

using KeyBytes = std::array<std::byte, 16>;
KeyBytes key_of(std::uint64_t i) {
  KeyBytes key{};
  std::memcpy(key.data(), &i, sizeof i);
  return key;
}
void write_key(std::uint64_t i, std::byte* out) {
  const KeyBytes key = key_of(i);
  std::memcpy(out, key.data(), key.size());
}

// Computes the chi-squared statistic, the sum over cells of (seen - expected)^2 / expected, and returns
// its deviation from its mean in standard deviations.
double chi_square_deviation(const std::vector<std::uint64_t>& cells, double expected) {
  double chi = 0;
  for (const std::uint64_t seen : cells) chi += std::pow(static_cast<double>(seen) - expected, 2) / expected;
  const double freedom = static_cast<double>(cells.size()) - 1;
  return (chi - freedom) / std::sqrt(2 * freedom);
}

TEST(HashFamily, EveryFunctionIsUniformOverNodesAndSlots) {
  constexpr std::uint64_t keys = 200'000;
  for (const Coupling coupling : {Coupling::decoupled, Coupling::partially_coupled}) {
    const HashFamily family({.nodes = 7, .slots_per_node = 100, .functions = 3, .coupling = coupling}, 5);
    std::vector<std::vector<std::uint64_t>> seen(3, std::vector<std::uint64_t>(700));
    for (std::uint64_t i = 0; i < keys; ++i) {
      const KeyBytes key = key_of(i);
      KeyHash hash = family.hash(key);
      for (std::uint32_t f = 0; f < 3; ++f) ++seen[f][family.number(hash.candidate(f))];
    }
    for (const auto& cells : seen) EXPECT_LT(std::abs(chi_square_deviation(cells, keys / 700.0)), 5);
  }
}

TEST(HashFamily, CandidatesDifferAndCouplingHolds) {
  for (const Coupling coupling : {Coupling::decoupled, Coupling::partially_coupled}) {
    // With only 4 slots per node two hash functions often hit the same slot for a key; candidate() must then
    // give the later function another slot.
    const HashFamily family({.nodes = 3, .slots_per_node = 4, .functions = 4, .coupling = coupling}, 9);
    std::uint32_t spread = 0;
    for (std::uint64_t i = 0; i < 5'000; ++i) {
      const KeyBytes key = key_of(i);
      KeyHash hash = family.hash(key);
      std::set<std::uint64_t> numbers;
      std::set<std::uint32_t> nodes;
      for (std::uint32_t f = 0; f < 4; ++f) {
        numbers.insert(family.number(hash.candidate(f)));
        nodes.insert(hash.candidate(f).node);
        EXPECT_EQ(hash.rank_of(hash.candidate(f)), f);
      }
      EXPECT_EQ(numbers.size(), 4u);
      if (nodes.size() > 1) ++spread;
    }
    if (coupling == Coupling::partially_coupled)
      EXPECT_EQ(spread, 0u);
    else
      EXPECT_GT(spread, 4'000u);
  }
}

TEST(HashFamily, SeedsGiveOtherFunctionsAndRunsAgree) {
  const Shape shape{.nodes = 15, .slots_per_node = 1'000'000};
  const KeyBytes key = key_of(42);
  const HashFamily one(shape, 1);
  const HashFamily again(shape, 1);
  const HashFamily other(shape, 2);
  KeyHash first = one.hash(key);
  KeyHash same = again.hash(key);
  KeyHash differs = other.hash(key);
  EXPECT_EQ(first.known(), 0u);
  EXPECT_EQ(first.candidate(2), same.candidate(2));
  EXPECT_EQ(first.known(), 3u);
  EXPECT_EQ(first.candidate(0), same.candidate(0));
  EXPECT_EQ(first.filter(32), same.filter(32));
  EXPECT_NE(first.candidate(0), differs.candidate(0));
}

TEST(HashFamily, FilterBitsAreIndependentOfTheSlot) {
  // Keys that share a slot must collide in b filter bits with probability 2^-b.
  const HashFamily family({.nodes = 4, .slots_per_node = 16, .functions = 3}, 3);
  for (const std::uint32_t bits : {1u, 4u, 7u}) {
    for (std::uint32_t f = 0; f < 3; ++f) {
      std::map<std::uint64_t, std::vector<std::uint64_t>> filters;
      for (std::uint64_t i = 0; i < 8'000; ++i) {
        const KeyBytes key = key_of(i);
        KeyHash hash = family.hash(key);
        filters[family.number(hash.candidate(f))].push_back(hash.filter(bits));
      }
      double pairs = 0, collisions = 0;
      for (const auto& [slot, values] : filters) {
        for (std::size_t a = 0; a < values.size(); ++a) {
          for (std::size_t b = a + 1; b < values.size(); ++b) {
            ++pairs;
            collisions += values[a] == values[b] ? 1 : 0;
          }
        }
      }
      const double expected = std::pow(0.5, bits);
      EXPECT_NEAR(collisions / pairs, expected, 6 * std::sqrt(expected / pairs) + 0.04 * expected)
          << bits << " bits, function " << f;
    }
  }
}

// Checks that every key is placed once, in one of its candidate slots, and that the statistics match the
// table.
void expect_sound(const HashFamily& family, const Placement& placement, std::uint64_t count) {
  std::vector<bool> seen(count);
  std::vector<std::uint64_t> by_rank(family.shape().functions);
  for (std::uint64_t number = 0; number < placement.slots(); ++number) {
    const std::uint32_t owner = placement.owner(number);
    if (owner == Placement::free_slot) continue;
    ASSERT_LT(owner, count);
    EXPECT_FALSE(seen[owner]);
    seen[owner] = true;
    const KeyBytes key = key_of(owner);
    KeyHash hash = family.hash(key);
    const std::uint32_t rank = hash.rank_of(family.place(number));
    ASSERT_LT(rank, family.shape().functions);
    ++by_rank[rank];
  }
  EXPECT_EQ(std::ranges::count(seen, true), static_cast<std::ptrdiff_t>(count));
  EXPECT_EQ(by_rank, placement.stats().by_rank);
}

TEST(Placement, LoadPointFourIsFirstFit) {
  const HashFamily family({.nodes = 15, .slots_per_node = 10'000, .functions = 3}, 1);
  const std::uint64_t count = 60'000;
  const auto placement = plan_placement(family, count, 16, write_key);
  ASSERT_TRUE(placement.has_value());
  expect_sound(family, *placement, count);
  const PlacementStats& stats = placement->stats();
  EXPECT_DOUBLE_EQ(stats.load, 0.4);
  // If each key is inserted into its first free candidate slot up to load a, a share a/2 of the keys is not
  // in the first candidate (rank 0), and a share a^2/3 is in neither the first nor the second (rank 1).
  const double beyond_0 = 1 - static_cast<double>(stats.by_rank[0]) / static_cast<double>(count);
  const double beyond_1 = static_cast<double>(stats.by_rank[2]) / static_cast<double>(count);
  EXPECT_NEAR(beyond_0, 0.20, 0.01);
  EXPECT_NEAR(beyond_1, 0.4 * 0.4 / 3, 0.01);
  EXPECT_NEAR(static_cast<double>(stats.moved) / static_cast<double>(count), 0.4 * 0.4 * 0.4 / 4, 0.004);
}

TEST(Placement, IsDeterministic) {
  const HashFamily family({.nodes = 3, .slots_per_node = 500, .functions = 3}, 8);
  const auto one = plan_placement(family, 1'200, 16, write_key);
  const auto two = plan_placement(family, 1'200, 16, write_key);
  ASSERT_TRUE(one && two);
  for (std::uint64_t number = 0; number < one->slots(); ++number)
    ASSERT_EQ(one->owner(number), two->owner(number));
}

// As long as no key has to move, a key lies in its first candidate slot that the keys before it left free.
TEST(Placement, KeysAreInsertedOneAfterTheOther) {
  for (const std::uint32_t functions : {1U, 2U, 3U}) {
    const HashFamily family({.nodes = 2, .slots_per_node = 400, .functions = functions}, 8);
    for (const std::uint64_t count : {0U, 1U, 7U, 8U, 15U, 16U, 17U, 33U, 100U}) {
      const auto placement = plan_placement(family, count, 16, write_key);
      if (functions == 1 && !placement) continue;  // two keys have one slot
      ASSERT_TRUE(placement);
      if (placement->stats().moved > 0) continue;
      std::vector<std::uint32_t> owners(placement->slots(), Placement::free_slot);
      std::array<std::byte, 16> key{};
      for (std::uint32_t i = 0; i < count; ++i) {
        write_key(i, key.data());
        KeyHash hash = family.hash(key);
        std::uint32_t rank = 0;
        while (owners[family.number(hash.candidate(rank))] != Placement::free_slot) ++rank;
        owners[family.number(hash.candidate(rank))] = i;
      }
      for (std::uint64_t slot = 0; slot < owners.size(); ++slot)
        ASSERT_EQ(placement->owner(slot), owners[slot]) << functions << " functions, " << count << " keys";
    }
  }
}

TEST(Placement, MeanProbesOfThreeWayCuckoo) {
  // Pilaf (2013), section 3.4 and Figure 6: a look-up takes on average 1.6 probes at a load of 75 %, 1.45 at
  // 65 %, and at most 3.
  for (const auto& [load, published] : {std::pair{0.75, 1.6}, std::pair{0.65, 1.45}}) {
    const HashFamily family({.nodes = 1, .slots_per_node = 100'000, .functions = 3}, 4);
    const auto count = static_cast<std::uint64_t>(load * 100'000);
    const auto placement = plan_placement(family, count, 16, write_key);
    ASSERT_TRUE(placement.has_value());
    expect_sound(family, *placement, count);
    EXPECT_NEAR(placement->stats().mean_probes(), published, 0.06) << load;
  }
}

TEST(Placement, TooHighALoadIsReported) {
  // The load thresholds of d-ary cuckoo hashing: 50 % for 2 functions, 91.8 % for 3.
  const HashFamily two({.nodes = 1, .slots_per_node = 10'000, .functions = 2}, 4);
  EXPECT_TRUE(plan_placement(two, 4'500, 16, write_key).has_value());
  const auto full = plan_placement(two, 6'000, 16, write_key);
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, ErrorCode::exhausted);
  EXPECT_NE(full.error().message.find("2 hash functions"), std::string::npos);
  const HashFamily three({.nodes = 2, .slots_per_node = 5'000, .functions = 3}, 4);
  EXPECT_TRUE(plan_placement(three, 8'800, 16, write_key).has_value());
  EXPECT_FALSE(plan_placement(three, 9'600, 16, write_key).has_value());
}

// A table that a test writes out by hand: occupant[slot] lists the candidate slots of the key in that
// slot.
class Drawn final : public Occupancy {
 public:
  std::map<std::uint64_t, std::vector<std::uint64_t>> occupant;
  bool is_free(std::uint64_t slot) override { return !occupant.contains(slot); }
  std::uint32_t candidates(std::uint64_t slot, std::uint64_t* out) override {
    const auto& all = occupant.at(slot);
    std::ranges::copy(all, out);
    return static_cast<std::uint32_t>(all.size());
  }
};

TEST(Path, ShortestInRankOrder) {
  Drawn table;
  table.occupant = {{0, {0, 1, 2}}, {1, {1, 0, 3}}, {2, {2, 5, 0}}, {3, {3, 1, 0}}};
  const std::array<std::uint64_t, 2> from{0, 1};
  const Path path = shortest_path(table, from, 100);
  EXPECT_EQ(path.slots, (std::vector<std::uint64_t>{0, 2, 5}));
  EXPECT_EQ(path.moves(), 2u);
  table.occupant[5] = {5, 2, 0};
  EXPECT_FALSE(shortest_path(table, from, 100).found());
  EXPECT_FALSE(shortest_path(table, from, 3).found());
}

TEST(HashFamily, AShapeThatIsImpossibleSaysSo) {
  const Shape least{.nodes = 1, .slots_per_node = 3, .functions = 3};
  EXPECT_TRUE(least.is_possible());
  for (const Shape& shape : {Shape{.nodes = 0, .slots_per_node = 3, .functions = 3},
                             Shape{.nodes = 1, .slots_per_node = 3, .functions = 0},
                             Shape{.nodes = 1, .slots_per_node = 2, .functions = 3},
                             Shape{.nodes = 1, .slots_per_node = 100, .functions = max_functions + 1}})
    EXPECT_FALSE(shape.is_possible()) << shape.functions << " of " << shape.slots();
  const Shape coupled{
      .nodes = 2, .slots_per_node = 2, .functions = 3, .coupling = Coupling::partially_coupled};
  EXPECT_FALSE(coupled.is_possible());
}

}  // namespace
}  // namespace loch::cuckoo
