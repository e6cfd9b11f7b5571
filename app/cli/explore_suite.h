// loch explore --suite and --mutants: explorations of a file, as a table that can be made again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/cli/explore_flags.h"
#include "app/cli/explore_options.h"

namespace loch::cli {

// A line of the file: GROUP EXPECTED PROTOCOL "SCENARIO" [flags]. Behind # are comments.
struct SuiteEntry {
  bool is_quick = false;  // GROUP: quick or long
  std::string expected;   // complete, found, bound (nothing within --states)
  ExploreOptions options;
};

// The error names the line: "FILE:7: …". A scenario of a protocol that the build does not have is one.
[[nodiscard]] Result<std::vector<SuiteEntry>> parse_suite(std::string_view text, const std::string& name,
                                                          const kv::Registry& registry);
[[nodiscard]] Result<std::vector<SuiteEntry>> read_suite(const std::string& file,
                                                         const kv::Registry& registry);
[[nodiscard]] std::string default_suite();

// Whether an exploration is what the file says of it. What was expected to reach its bound may be complete.
[[nodiscard]] bool is_as_expected(const SuiteEntry& entry, const explore::Exploration& all);

// Exit status 0: all as expected, or every variant was looked for; 1: some not as expected; 2: bad input.
[[nodiscard]] int run_explore_suite(ExploreFlags flags, const kv::Registry& registry);

}  // namespace loch::cli
