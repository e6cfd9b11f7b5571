// Tests typed options: defaults, types, and bad input.
#include "common/kv/options.h"

#include <gtest/gtest.h>

namespace loch::kv {
namespace {

Options sample() {
  return Options({{"nessie.filter-bits", OptionType::integer, "7", "", {}, 0, 15},
                  {"nessie.variant", OptionType::choice, "hardened", "", {"published", "hardened"}},
                  {"nessie.expiry", OptionType::duration, "1s", "", {}},
                  {"nessie.cache", OptionType::boolean, "true", "", {}}});
}

TEST(Options, DefaultsAndTypes) {
  Options options = sample();
  EXPECT_EQ(options.integer("nessie.filter-bits"), 7);
  EXPECT_EQ(options.integer("nessie.expiry"), 1'000'000'000);
  ASSERT_TRUE(options.set("nessie.cache", "off").has_value());
  EXPECT_FALSE(options.boolean("nessie.cache"));
}

TEST(Options, AnAliasSetsItsOption) {
  Options options({fix_option("nessie", "h2", "unique EMPTY words"), fix_option("nessie", "h7", "", "true")});
  EXPECT_FALSE(options.boolean("nessie.mend-h2"));
  EXPECT_TRUE(options.boolean("nessie.mend-h7"));
  ASSERT_TRUE(options.set("nessie.fix-h2", "true").has_value());
  EXPECT_TRUE(options.boolean("nessie.mend-h2"));
  EXPECT_EQ(options.values().size(), 2u) << "an alias is no option of its own";
  EXPECT_FALSE(options.set("nessie.fix-h3", "true").has_value());
}

TEST(Options, ADefaultIsNotGiven) {
  Options options({{"nessie.filter-bits", OptionType::integer, "7", "", {}, 0, 15},
                   fix_option("nessie", "h2", "unique EMPTY words")});
  EXPECT_FALSE(options.is_given("nessie.filter-bits"));
  ASSERT_TRUE(options.set("nessie.filter-bits", "7").has_value());
  EXPECT_TRUE(options.is_given("nessie.filter-bits")) << "the default's value, but given";
  EXPECT_FALSE(options.set("nessie.filter-bits", "99").has_value());
  EXPECT_TRUE(options.is_given("nessie.filter-bits")) << "a value that was refused changes nothing";
  ASSERT_TRUE(options.set_default("nessie.filter-bits", "3").has_value());
  EXPECT_FALSE(options.is_given("nessie.filter-bits"));
  EXPECT_EQ(options.integer("nessie.filter-bits"), 3);
  ASSERT_TRUE(options.set("nessie.fix-h2", "true").has_value());
  EXPECT_TRUE(options.is_given("nessie.mend-h2")) << "by its alias";
}

TEST(Options, TextIsTakenAsItIs) {
  Options options({{"pilaf.log", OptionType::text, "", "", {}}});
  EXPECT_EQ(options.text("pilaf.log"), "");
  ASSERT_TRUE(options.set("pilaf.log", "/var/log/a b=c").has_value());
  EXPECT_EQ(options.text("pilaf.log"), "/var/log/a b=c");
}

TEST(Options, BadInputNamesTheKey) {
  Options options = sample();
  const auto range = options.set("nessie.filter-bits", "99");
  ASSERT_FALSE(range.has_value());
  EXPECT_NE(range.error().message.find("nessie.filter-bits"), std::string::npos);
  const auto unknown = options.set("nessie.filterbits", "3");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().message.find("did you mean nessie.filter-bits"), std::string::npos);
  EXPECT_FALSE(options.set("nessie.variant", "other").has_value());
  EXPECT_EQ(options.integer("nessie.filter-bits"), 7);
}

}  // namespace
}  // namespace loch::kv
