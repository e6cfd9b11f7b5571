// Tests tables of commands: what is parsed into which variable, what is refused with which message, and the
// --help text.
#include "common/settings/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace loch::settings {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

struct Toy {
  std::string protocol, suite = "untouched";
  std::uint64_t seeds = 0;
  std::uint32_t jobs = 0;
  std::optional<double> quota;
  Nanos time = 0;
  bool verbose = false, reduces = true;
  Words set;
};

Command command_of(Toy& toy) {
  return {
      .name = "toy",
      .usage = {"[flags] WHAT [FILE…]", "--suite [FILE]"},
      .about = "Plays.",
      .operands = {{.setting = choice("WHAT", {"sea", "lake"}, "what is played in")},
                   {.setting = of(Type::file, "FILE", "", "a toy"),
                    .is_required = false,
                    .is_repeated = true}},
      .flags = {{.setting = listed(of(Type::text, "protocol", "nessie", "who plays"), "protocols"),
                 .place = &toy.protocol,
                 .letter = 'p'},
                {.setting = of(Type::integer, "seeds", "10", "how many", 1), .place = &toy.seeds},
                {.setting = of(Type::integer, "jobs", "", "threads (one a core)", 1, 8), .place = &toy.jobs},
                {.setting = in_unit(of(Type::real, "quota", "", "CPU time", 0.5, 4), "cores"),
                 .place = &toy.quota},
                {.setting = of(Type::duration, "time", "", "stop after it"), .place = &toy.time},
                {.setting = of(Type::boolean, "verbose", "", "says more"), .place = &toy.verbose},
                {.setting = of(Type::boolean, "no-reduction", "", "slower"), .place = Off{&toy.reduces}},
                {.setting = of(Type::file, "suite", "", "a file of them"),
                 .place = &toy.suite,
                 .is_value_optional = true},
                {.setting = of(Type::boolean, "quick", "", "the quick ones"), .goes_with = {"suite"}},
                {.setting = of(Type::text, "set", "", "an option"), .place = &toy.set, .is_list = true}},
      .rest = "COMMAND",
      .notes = "Toys are for children.",
      .statuses = {{"0", "played"}, {"2", "bad input"}},
      .example = "toy lake"};
}

std::string refusal(const Words& words) {
  Toy toy;
  const auto given = parse(command_of(toy), words);
  return given ? "accepted" : given.error().message;
}

TEST(Command, DefaultsAreStoredAndThenWhatIsGiven) {
  Toy toy;
  const auto plain = parse(command_of(toy), {"sea"});
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(toy.protocol, "nessie");
  EXPECT_EQ(toy.seeds, 10U);
  EXPECT_EQ(toy.jobs, 0U);
  EXPECT_FALSE(toy.quota || toy.verbose || plain->has("seeds"));
  EXPECT_TRUE(toy.reduces);
  const auto all =
      parse(command_of(toy),
            {"--seeds=1K", "lake",    "-p",        "pilaf",          "--jobs", "3",   "a", "--quota=1.5",
             "--time",     "2us",     "--verbose", "--no-reduction", "--set",  "a=1", "b", "--set=c=2",
             "--suite",    "--quick", "--",        "sleep",          "--jobs"});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(toy.protocol, "pilaf");
  EXPECT_EQ(toy.seeds, 1024U);
  EXPECT_EQ(toy.jobs, 3U);
  EXPECT_EQ(toy.quota, 1.5);
  EXPECT_EQ(toy.time, 2000);
  EXPECT_TRUE(toy.verbose);
  EXPECT_FALSE(toy.reduces);
  EXPECT_EQ(toy.suite, "untouched");
  EXPECT_THAT(toy.set, ElementsAre("a=1", "c=2"));
  EXPECT_THAT(all->words, ElementsAre("lake", "a", "b"));
  EXPECT_THAT(all->rest, ElementsAre("sleep", "--jobs"));
  EXPECT_THAT(all->texts.at("set"), ElementsAre("a=1", "c=2"));
  EXPECT_TRUE(all->has("suite"));
}

TEST(Command, TheLastOfTwoCountsAndBooleansTakeAValueBehindTheirName) {
  Toy toy;
  ASSERT_TRUE(parse(command_of(toy), {"sea", "--seeds", "2", "--seeds", "3", "--verbose", "--verbose=false",
                                      "--no-reduction=off", "--suite", "s.txt", "-ppilaf"}));
  EXPECT_EQ(toy.seeds, 3U);
  EXPECT_FALSE(toy.verbose);
  EXPECT_TRUE(toy.reduces);
  EXPECT_EQ(toy.suite, "s.txt");
  EXPECT_EQ(toy.protocol, "pilaf");
}

TEST(Command, ARefusalNamesTheFlagAndWhatWasExpected) {
  EXPECT_EQ(refusal({"sea", "--sedes", "3"}), "--sedes: no such flag; did you mean --seeds?");
  EXPECT_EQ(refusal({"sea", "-x"}), "-x: no such flag");
  EXPECT_EQ(refusal({"sea", "--seeds"}), "--seeds: expected a value");
  EXPECT_EQ(refusal({"sea", "--protocol", "--verbose"}), "--protocol: expected a value");
  EXPECT_EQ(refusal({"sea", "--seeds", "-1"}), "--seeds: \"-1\" is not a whole number of at least 1");
  EXPECT_EQ(refusal({"sea", "--jobs=9"}), "--jobs: \"9\" is not a whole number from 1 to 8");
  EXPECT_EQ(refusal({"sea", "--verbose=maybe"}), "--verbose: \"maybe\" is not true or false");
  EXPECT_EQ(refusal({"sea", "--quick"}), "--quick: goes with --suite");
  EXPECT_EQ(refusal({"see"}), "WHAT: \"see\" is not one of sea, lake; did you mean sea?");
  EXPECT_EQ(refusal({}), "expected WHAT: one of sea, lake");
  EXPECT_EQ(refusal({"sea", "--"}), "--: expected COMMAND after it");
}

TEST(Command, AWordTooManyIsNamed) {
  Toy toy;
  Command command = command_of(toy);
  command.operands.pop_back();
  EXPECT_EQ(parse(command, {"sea", "b"}).error().message, "\"b\": one word too many; expected WHAT");
  EXPECT_EQ(parse(command, {"sea", "--verbose", "no"}).error().message,
            "\"no\": one word too many; expected WHAT");
  command.operands.clear();
  ASSERT_TRUE(parse(command, {"--verbose", "no", "--no-reduction"}));
  EXPECT_FALSE(toy.verbose || toy.reduces);
  EXPECT_EQ(parse(command, {"--verbose", "b"}).error().message, "--verbose: \"b\" is not true or false");
  EXPECT_EQ(parse(command, {"b"}).error().message, "\"b\": belongs to no flag; COMMAND comes after --");
  command.rest.clear();
  EXPECT_EQ(parse(command, {"b"}).error().message,
            "\"b\": belongs to no flag; loch toy --help lists the flags");
}

TEST(Command, HelpIsAskedForBeforeTheRest) {
  EXPECT_TRUE(asks_for_help({"sea", "--help"}));
  EXPECT_TRUE(asks_for_help({"-h"}));
  EXPECT_FALSE(asks_for_help({"sea", "--", "ls", "--help"}));
}

TEST(Command, HelpHasRangesDefaultsStatusesAndAnExample) {
  Toy toy;
  const std::string text = help(command_of(toy));
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("Usage: loch toy [flags] WHAT [FILE…]\n       loch toy --suite [FILE]\n\nPlays.\n"),
            HasSubstr("  -p, --protocol TEXT  who plays: loch list protocols (nessie)\n"),
            HasSubstr("  --seeds N            how many [≥ 1] (10)\n"),
            HasSubstr("threads (one a core) [1…8]\n"),
            HasSubstr("  --quota NUMBER       CPU time [0.5…4 cores]\n"),
            HasSubstr("  --verbose            says more\n"),
            HasSubstr("  --suite [FILE]       a file of them\n"),
            HasSubstr("the quick ones; goes with --suite\n")));
  EXPECT_THAT(
      text,
      HasSubstr(
          "\nToys are for children.\n\nExit status 0: played; 2: bad input.\nExample: loch toy lake\n"));
  Command wide = command_of(toy);
  wide.about = std::string(120, 'x') + " " + std::string(60, 'y') + " " + std::string(60, 'z');
  EXPECT_THAT(help(wide),
              HasSubstr(std::string(120, 'x') + "\n" + std::string(60, 'y') + "\n" + std::string(60, 'z')));
}

}  // namespace
}  // namespace loch::settings
