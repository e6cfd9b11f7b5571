// Tests keys, first values, and which record numbers inserts get and operations may draw.
#include "workloads/records.h"

#include <gtest/gtest.h>

#include <set>

#include "common/base/rng.h"
#include "common/kv/value.h"
#include "workloads/inserts.h"

namespace loch::workloads {
namespace {

Records make(std::uint32_t key_size, KeyOrder order = KeyOrder::hashed, std::uint32_t padding = 1) {
  auto records = Records::make({100, 200, key_size, 64, order, padding});
  EXPECT_TRUE(records) << records.error().message;
  return *records;
}
std::string name_of(const Records& records, std::uint64_t i) {
  std::vector<std::byte> key(records.shape().key_size);
  records.key(i, key.data());
  return key_name({key.data(), records.shape().key_size});
}

TEST(Records, KeysAreYcsbs) {
  EXPECT_EQ(name_of(make(128), 0), "user6284781860667377211");
  EXPECT_EQ(name_of(make(24), 1), "user8517097267634966620");
  EXPECT_EQ(name_of(make(128, KeyOrder::ordered), 7), "user7");
  EXPECT_EQ(name_of(make(128, KeyOrder::ordered, 6), 7), "user000007");
  EXPECT_EQ(name_of(make(128, KeyOrder::ordered, 120), 7), "user" + std::string(119, '0') + "7");
}

TEST(Records, KeysOfAnyNumberAreItsDigits) {
  const Records records = make(128, KeyOrder::ordered);
  std::uint64_t power = 1;
  for (int digits = 1; digits <= 20; ++digits, power *= 10) {
    for (const std::uint64_t number :
         {power - 1, power, power + 1, 7 * power, power / 3, mix64(power) % power}) {
      EXPECT_EQ(name_of(records, number), "user" + std::to_string(number));
    }
  }
  EXPECT_EQ(name_of(records, UINT64_MAX), "user18446744073709551615");
}

TEST(Records, KeysOfEverySizeAreDistinct) {
  for (const std::uint32_t size : {1U, 2U, 4U, 7U, 8U, 10U, 11U, 16U, 23U, 24U, 128U, 500U}) {
    const Records records = make(size);
    std::set<std::string> names;
    for (std::uint64_t i = 0; i < 200; ++i) names.insert(name_of(records, i));
    EXPECT_EQ(names.size(), 200U) << size;
  }
}

TEST(Records, FirstValuesNameThePreload) {
  for (const std::uint32_t size : {16U, 128U, 500U}) {
    const Records records = make(size);
    std::vector<std::byte> key(size), value(64);
    records.key(3, key.data());
    records.value(3, value.data(), 64);
    const auto reading = kv::read_value({value.data(), 64, 64}, kv::key_digest({key.data(), size}), true);
    EXPECT_EQ(reading.verdict, kv::ValueVerdict::verified);
    EXPECT_EQ(reading.stamp.writer, kv::initial_writer);
  }
}

TEST(Records, RefusesKeysTooSmall) {
  EXPECT_FALSE(Records::make({300, 300, 1, 64}));
  EXPECT_FALSE(Records::make({1, 1, 0, 64}));
  EXPECT_FALSE(Records::make({1, 1, 8, 0}));
}

TEST(InsertLedger, ProcessesShareNothing) {
  std::set<std::uint64_t> all;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    InsertLedger ledger(100, 110, rank, 3);
    for (std::uint64_t n = ledger.take(); n != InsertLedger::none; n = ledger.take())
      EXPECT_TRUE(all.insert(n).second);
  }
  EXPECT_EQ(all.size(), 10U);
  EXPECT_EQ(*all.begin(), 100U);
  EXPECT_EQ(*all.rbegin(), 109U);
}

TEST(InsertLedger, DrawsOnlyWhatIsAcknowledgedInOrder) {
  InsertLedger ledger(100, 200, 1, 2);
  const std::uint64_t a = ledger.take(), b = ledger.take();
  EXPECT_EQ(a, 101U);
  EXPECT_EQ(b, 103U);
  ledger.acknowledge(b);
  EXPECT_EQ(ledger.acknowledged(), 0U);
  ledger.acknowledge(a);
  EXPECT_EQ(ledger.acknowledged(), 2U);
  EXPECT_EQ(ledger.record(99), 99U);
  EXPECT_EQ(ledger.record(101), 103U);
}

}  // namespace
}  // namespace loch::workloads
