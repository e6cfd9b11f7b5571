// Tests the version, commit, compiler and flags that the program reports about its own build.
#include "common/base/version.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace loch {
namespace {

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

TEST(Version, NamesACommitOrSaysThatItIsUnknown) {
  const std::string commit(build_commit());
  if (commit == "unknown") {
    EXPECT_FALSE(build_is_dirty());
  } else {
    EXPECT_GE(commit.size(), 40u);
    EXPECT_TRUE(std::all_of(commit.begin(), commit.end(), is_hex)) << commit;
  }
}

TEST(Version, IsThreeNumbers) {
  const std::string text(version());
  EXPECT_EQ(std::count(text.begin(), text.end(), '.'), 2) << text;
  EXPECT_TRUE(
      std::all_of(text.begin(), text.end(), [](char c) { return c == '.' || (c >= '0' && c <= '9'); }));
}

TEST(Version, NamesTheCompilerThatCompilesThisTest) {
#ifdef __clang__
  const std::string expected = "Clang " + std::to_string(__clang_major__) + ".";
#else
  const std::string expected = "GNU " + std::to_string(__GNUC__) + ".";
#endif
  EXPECT_TRUE(build_compiler().starts_with(expected)) << build_compiler();
}

TEST(Version, FlagsTellASanitizedBuildFromAPlainOne) {
#if defined(LOCH_ASAN)
  EXPECT_NE(build_flags().find("address"), std::string_view::npos) << build_flags();
#elif defined(LOCH_TSAN)
  EXPECT_NE(build_flags().find("thread"), std::string_view::npos) << build_flags();
#else
  EXPECT_EQ(build_flags().find("-fsanitize"), std::string_view::npos) << build_flags();
#endif
  EXPECT_NE(build_flags().find("-std=c++23"), std::string_view::npos) << build_flags();
}

}  // namespace
}  // namespace loch
