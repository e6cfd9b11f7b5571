// Tests what each type of setting accepts and refuses, and with which messages.
#include "common/settings/setting.h"

#include <gtest/gtest.h>

namespace loch::settings {
namespace {

Setting of(Type type, double minimum = 0, double maximum = 9e18) {
  return {.key = "key",
          .type = type,
          .initial = "",
          .help = "",
          .choices = {"near", "far"},
          .minimum = minimum,
          .maximum = maximum};
}
std::string refusal(const Setting& setting, std::string_view text) {
  const auto value = parse(setting, text);
  return value ? "accepted" : value.error().message;
}

TEST(Setting, EachTypeTakesWhatPeopleWrite) {
  EXPECT_EQ(parse(of(Type::boolean), "on").value(), Value(true));
  EXPECT_EQ(parse(of(Type::boolean), "false").value(), Value(false));
  EXPECT_EQ(parse(of(Type::integer), "1M").value(), Value(std::int64_t{1 << 20}));
  EXPECT_EQ(parse(of(Type::integer, -5, 5), "-3").value(), Value(std::int64_t{-3}));
  EXPECT_EQ(parse(of(Type::real), "0.25").value(), Value(0.25));
  EXPECT_EQ(parse(of(Type::size), "16K").value(), Value(std::int64_t{16384}));
  EXPECT_EQ(parse(of(Type::duration), "2us").value(), Value(std::int64_t{2000}));
  EXPECT_EQ(parse(of(Type::choice), "far").value(), Value(std::string("far")));
  EXPECT_EQ(parse(of(Type::text), "").value(), Value(std::string()));
  EXPECT_EQ(parse(of(Type::file), "a b").value(), Value(std::string("a b")));
}

TEST(Setting, ARefusalNamesTheKeyTheTextAndTheRange) {
  EXPECT_EQ(refusal(of(Type::integer, 1, 1024), "0"), "key: \"0\" is not a whole number from 1 to 1024");
  EXPECT_EQ(refusal(of(Type::integer, 1), "1.5"), "key: \"1.5\" is not a whole number of at least 1");
  EXPECT_EQ(refusal(of(Type::real, 0, 1), "1.5"), "key: \"1.5\" is not a number from 0 to 1");
  EXPECT_EQ(refusal(of(Type::real), "nan"), "key: \"nan\" is not a number of at least 0");
  EXPECT_EQ(refusal(of(Type::size, 1, 1 << 30), "2G"),
            "key: \"2G\" is not a size in bytes from 1 to 1G, such as 128 or 16K");
  EXPECT_EQ(refusal(of(Type::duration), "50"),
            "key: \"50\" is not a duration with its unit, such as 50ms or 10s");
  EXPECT_EQ(refusal(of(Type::duration, 1000, 1e9), "5s"),
            "key: \"5s\" is not a duration from 1us to 1s, with its unit, such as 50ms or 10s");
  EXPECT_EQ(refusal(of(Type::choice), "middle"), "key: \"middle\" is not one of near, far");
  EXPECT_EQ(refusal(of(Type::boolean), "maybe"), "key: \"maybe\" is not true or false");
  EXPECT_EQ(refusal(of(Type::output), ""), "key: \"\" is not a name");
}

TEST(Setting, WhatStandsForAValueInHelp) {
  EXPECT_EQ(placeholder(of(Type::choice)), "near|far");
  Setting size = of(Type::size);
  size.choices.clear();
  EXPECT_EQ(placeholder(size), "BYTES");
  size.placeholder = "B";
  EXPECT_EQ(placeholder(size), "B");
}

}  // namespace
}  // namespace loch::settings
