// Runs every protocol with every option at each choice and at both bounds: the value is refused in one line
// that names the option, or a run with injected failures has the consistency that the protocol claims.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "app/cli/registry.h"
#include "app/fuzz/fuzz.h"

namespace loch::fuzz {
namespace {

using kv::OptionRole;
using kv::OptionType;

constexpr std::uint64_t seeds = 2;

std::string written(const kv::OptionSpec& spec, double value) {
  if (spec.type == OptionType::real) return fmt::format("{}", value);
  return fmt::format("{}{}", static_cast<std::int64_t>(value), spec.type == OptionType::duration ? "ns" : "");
}

std::vector<std::string> values_of(const kv::OptionSpec& spec) {
  switch (spec.type) {
    case OptionType::boolean:
      return {"false", "true"};
    case OptionType::choice:
      return spec.choices;
    case OptionType::text:
      return {};  // file names and lists have their own tests
    default:
      return {written(spec, spec.minimum), written(spec, spec.maximum)};
  }
}

// Whether a run failed only because a numeric option at its bound makes operations time out or exceed the
// test's time. Wrong values, and runs that do not end although no operation is outstanding, are still
// failures.
bool is_too_tight(const kv::OptionSpec& spec, const FuzzFinding& found) {
  if (spec.type == OptionType::boolean || spec.type == OptionType::choice) return false;
  return found.verdict == FuzzVerdict::stuck ||
         (found.verdict == FuzzVerdict::overtime && !found.reason.starts_with("0 operations"));
}

// Whether the protocol promises less service after failures with the options `chosen` than by default; checks
// of keys and tables after failures are then skipped.
bool promises_less(const kv::Module& module, const kv::Options& chosen) {
  const kv::Options defaults(module.options());
  const auto is_given_up = [&](kv::Loss loss) {
    return module.promise(loss, chosen) == kv::Promise::unavailable &&
           module.promise(loss, defaults) != kv::Promise::unavailable;
  };
  return is_given_up(kv::Loss::memory_lost) || is_given_up(kv::Loss::client_killed) ||
         is_given_up(kv::Loss::link_down);
}

// Whether the option states a fact about the environment (clock skew, age of requests): if the fact is
// untrue, the protocol claims nothing.
bool is_told_of_the_world(const kv::OptionSpec& spec) {
  return spec.role == OptionRole::clock_margin || spec.role == OptionRole::expiry;
}

class EveryOption : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryOption, HoldsOrIsRefusedByName) {
  const kv::Registry registry = cli::make_registry();
  const kv::Module& module = *registry.at(GetParam());
  std::size_t held = 0, refused = 0;
  const std::string prefix =
      module.options().front().key.substr(0, module.options().front().key.find('.') + 1);
  for (const kv::OptionSpec& spec : module.options()) {
    for (const std::string& value : values_of(spec)) {
      kv::Options chosen(module.options());
      ASSERT_TRUE(chosen.set(spec.key, value).has_value()) << spec.key << " " << value;
      FuzzOptions options;
      options.protocol = GetParam();
      options.settings = {{spec.key, value}};
      for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        const FuzzFinding found = fuzz_seed(seed, options, module);
        const std::string what = fmt::format("{}={}, seed {}: {}: {}\n{}", spec.key, value, seed,
                                             name(found.verdict), found.reason, found.scenario);
        if (is_too_tight(spec, found)) continue;
        if (promises_less(module, chosen) && found.verdict == FuzzVerdict::unsound) continue;
        if (found.verdict == FuzzVerdict::error) {
          ++refused;
          if (is_told_of_the_world(spec)) continue;
          EXPECT_NE(found.reason.find(prefix), std::string::npos) << what;
          EXPECT_EQ(found.reason.find('\n'), std::string::npos) << what;
        } else if (module.fixes(chosen).empty() && !is_told_of_the_world(spec)) {
          ++held;
          EXPECT_EQ(found.verdict, FuzzVerdict::holds) << what;
        }
      }
    }
  }
  EXPECT_GT(held, 2 * module.options().size()) << refused << " were refused";
}

std::vector<std::string> storing() {
  return {"nessie", "nessie-sd", "nessie-hy", "pilaf", "pilaf-vo", "herd"};
}

INSTANTIATE_TEST_SUITE_P(Protocols, EveryOption, testing::ValuesIn(storing()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace loch::fuzz
