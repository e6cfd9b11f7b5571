// `loch explore` --suite and --mutants: runs the explorations that a suite file lists, and prints a table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/cli/explore_flags.h"
#include "app/cli/explore_options.h"

namespace loch::cli {

// A line of a suite file: GROUP EXPECTED PROTOCOL "SCENARIO" [flags], with a comment after '#'.
struct SuiteEntry {
  bool is_quick = false;  // whether the line's GROUP is "quick" and not "long"
  std::string expected;   // complete, found, or bound (no violation within --states)
  ExploreOptions options;
};

// Parses a suite file; `name` is the file's name. An error names the line ("FILE:7: …"); a protocol that the
// build does not have is an error.
[[nodiscard]] Result<std::vector<SuiteEntry>> parse_suite(std::string_view text, const std::string& name,
                                                          const kv::Registry& registry);
[[nodiscard]] Result<std::vector<SuiteEntry>> read_suite(const std::string& file,
                                                         const kv::Registry& registry);
[[nodiscard]] std::string default_suite();

// Whether the exploration's result is the one that the line expects; "complete" also satisfies an expected
// "bound".
[[nodiscard]] bool is_as_expected(const SuiteEntry& entry, const explore::Exploration& all);

// Exit status: 0: all results are as expected (with --mutants: always, found or not); 1: some results are not
// as expected; 2: bad input; 130: interrupted.
[[nodiscard]] int run_explore_suite(ExploreFlags flags, const kv::Registry& registry);

}  // namespace loch::cli
