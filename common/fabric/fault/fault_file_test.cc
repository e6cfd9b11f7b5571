// Tests the format of fault files: which keys each fabric accepts, and why it refuses the others.
#include "common/fabric/fault/fault_file.h"

#include <gtest/gtest.h>

namespace loch::fabric {
namespace {

std::string refusal(const std::string& text, FaultSource source) {
  const auto file = read_fault_file(text, "f.yaml", source);
  return file ? "accepted" : file.error().message;
}

TEST(FaultFile, EveryFabricReadsTheSameNames) {
  const std::string text = "uc_loss: 0.25\nud_reorder: 0.5\nud_reorder_span: 20us\n";
  for (const FaultSource source : {FaultSource::simulator, FaultSource::decorator}) {
    const auto file = read_fault_file(text, "f.yaml", source);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    ASSERT_EQ(file->values.size(), 3U);
    EXPECT_EQ(file->values[0], std::pair(std::string("uc_loss"), settings::Value(0.25)));
    EXPECT_EQ(file->values[2],
              std::pair(std::string("ud_reorder_span"), settings::Value(std::int64_t{20'000})));
  }
}

TEST(FaultFile, FormerNamesHoldBareNanoseconds) {
  const auto file =
      read_fault_file("ud_reorder_ns: 500\ndelay_ns_max: 7us\n", "f.yaml", FaultSource::decorator);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->values[0], std::pair(std::string("ud_reorder_span"), settings::Value(std::int64_t{500})));
  EXPECT_EQ(file->values[1], std::pair(std::string("delay_span"), settings::Value(std::int64_t{7'000})));
  EXPECT_NE(refusal("ud_reorder_span: 500\n", FaultSource::simulator), "accepted")
      << "its unit would be a guess";
}

TEST(FaultFile, TheFieldsTermsAreTakenToo) {
  const auto file =
      read_fault_file("stragglers: 0.5\nfirst_straggler: 2\n", "f.yaml", FaultSource::simulator);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->values[0], std::pair(std::string("laggards"), settings::Value(0.5)));
  EXPECT_EQ(file->values[1], std::pair(std::string("first_laggard"), settings::Value(std::int64_t{2})));
}

TEST(FaultFile, AFabricRefusesWhatItCannotDo) {
  EXPECT_EQ(refusal("\ntorn_read: 0.5\n", FaultSource::decorator),
            "f.yaml:2: torn_read: expected a fault that can be injected on shm, verbs and ofi: the simulator "
            "alone can do "
            "this one");
  EXPECT_EQ(refusal("rc_error: 0.5\n", FaultSource::simulator),
            "f.yaml:1: rc_error: expected a fault of the simulator: shm and verbs alone inject this one");
}

TEST(FaultFile, ValuesOutOfRangeAndUnknownNames) {
  EXPECT_EQ(refusal("uc_loss: 1.5\n", FaultSource::decorator),
            "f.yaml:1: uc_loss: expected a number from 0 to 1");
  EXPECT_NE(refusal("ud_los: 0.1\n", FaultSource::decorator).find("ud_loss"), std::string::npos);
  EXPECT_NE(refusal("uc_loss: 0.1\nuc_loss: 0.2\n", FaultSource::simulator).find("there twice"),
            std::string::npos);
  EXPECT_NE(refusal("[1, 2]\n", FaultSource::simulator).find("a mapping"), std::string::npos);
  EXPECT_NE(refusal("uc_loss: {a: 1}\n", FaultSource::simulator).find("f.yaml:1: uc_loss"),
            std::string::npos);
}

// Each key of fault files belongs to the simulator or the decorator: a key of neither would have no effect.
TEST(FaultFile, EveryKeyIsOfSomeFabricAndItsDefaultIsInItsRange) {
  for (const FaultKey& key : fault_keys()) {
    EXPECT_TRUE(key.of_simulator || key.of_decorator) << key.setting.key;
    EXPECT_TRUE(settings::parse(key.setting, key.setting.initial).has_value()) << key.setting.key;
    EXPECT_FALSE(key.setting.help.empty()) << key.setting.key;
  }
}

}  // namespace
}  // namespace loch::fabric
