// Tests that values that are torn, changed or of another key are detected.
#include "common/kv/value.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace loch::kv {
namespace {

std::vector<std::byte> make(const ValueStamp& stamp) {
  std::vector<std::byte> out(stamp.length);
  write_value(stamp, out.data(), stamp.length);
  return out;
}
ValueView view(const std::vector<std::byte>& bytes) {
  const auto size = static_cast<std::uint32_t>(bytes.size());
  return {bytes.data(), size, size};
}

class ValueOfSize : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, ValueOfSize, testing::Values(8, 9, 16, 31, 32, 33, 40, 100, 879, 16384));

TEST_P(ValueOfSize, NamesItsWriterAndVerifies) {
  const ValueStamp stamp{77, 12, 345, GetParam()};
  const auto bytes = make(stamp);
  const ValueReading reading = read_value(view(bytes), 77, true);
  EXPECT_EQ(reading.verdict, ValueVerdict::verified);
  EXPECT_EQ(reading.stamp.writer, 12u);
  EXPECT_EQ(reading.stamp.sequence, 345u);
  EXPECT_EQ(value_name(view(bytes)), "w12.345");
  EXPECT_EQ(value_name(stamp), "w12.345");
}

TEST_P(ValueOfSize, EveryFlippedByteIsSeen) {
  const auto good = make({77, 12, 345, GetParam()});
  for (std::size_t at = 0; at < good.size(); at += at < 64 ? 1 : 97) {
    auto bad = good;
    bad[at] ^= std::byte{0x10};
    EXPECT_EQ(read_value(view(bad), 77, true).verdict, ValueVerdict::corrupt) << "byte " << at;
  }
}

TEST_P(ValueOfSize, AnotherKeysValueIsCorrupt) {
  EXPECT_EQ(read_value(view(make({77, 12, 345, GetParam()})), 78, true).verdict, ValueVerdict::corrupt);
}

TEST(Value, ATornValueIsCorrupt) {
  for (const std::uint32_t size : {128U, 879U, 16384U}) {
    auto torn = make({77, 12, 345, size});
    const auto other = make({77, 13, 9, size});
    std::copy(other.begin() + 64, other.end(), torn.begin() + 64);
    EXPECT_EQ(read_value(view(torn), 77, true).verdict, ValueVerdict::corrupt) << size;
  }
}

TEST_P(ValueOfSize, PreloadedValuesAreNamedSo) {
  EXPECT_EQ(value_name(view(make({77, initial_writer, 0, GetParam()}))), "init");
}

TEST(Value, ElidedValueIsJudgedByItsStamp) {
  const auto bytes = make({5, 1, 2, 4096});
  const ValueReading reading = read_value({bytes.data(), 4096, value_stamp_bytes}, 5, true);
  EXPECT_EQ(reading.verdict, ValueVerdict::stamp_only);
  EXPECT_EQ(reading.stamp.sequence, 2u);
}

TEST(Value, TinyValuesTellWritesApart) {
  std::set<std::string> names;
  for (std::uint64_t sequence = 0; sequence < 100; ++sequence) {
    const ValueStamp stamp{5, 1, sequence, 4};
    const auto bytes = make(stamp);
    EXPECT_EQ(read_value(view(bytes), 5, true).verdict, ValueVerdict::unnamed);
    EXPECT_EQ(value_name(view(bytes)), value_name(stamp));
    names.insert(value_name(stamp));
  }
  EXPECT_EQ(names.size(), 100u);
}

TEST(Value, KeyDigestSeesEveryByteAndTheLength) {
  std::vector<std::byte> key(23, std::byte{'a'});
  const std::uint64_t base = key_digest({key.data(), 23});
  for (auto& byte : key) {
    byte ^= std::byte{1};
    EXPECT_NE(key_digest({key.data(), 23}), base);
    byte ^= std::byte{1};
  }
  EXPECT_NE(key_digest({key.data(), 22}), base);
}

}  // namespace
}  // namespace loch::kv
