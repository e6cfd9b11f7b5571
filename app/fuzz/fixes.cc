// Determines by experiment which known flaw (hole) of the protocol causes a finding: repeats the scenario
// with each of the protocol's fixes switched on.
#include "app/fuzz/fixes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

namespace loch::fuzz {
namespace {

// The finding's scenario is repeated with different timing, at least least_timings times, until enough_found
// runs show the finding or most_timings runs were made. If no run shows it with a fix switched on, that is
// then significant.
constexpr std::uint32_t least_timings = 12, most_timings = 48, enough_found = 5;

class Trials {
 public:
  Trials(const FuzzFinding& finding, const FuzzOptions& options, const kv::Module& module)
      : finding_(finding), options_(options), module_(module) {}

  [[nodiscard]] bool shows(std::uint32_t timing, const std::vector<kv::Fix>& fixes) const {
    FuzzOptions fixed = options_;
    fixed.timing = timing;
    for (const kv::Fix& fix : fixes) fixed.settings.emplace_back(fix.option, "true");
    return fuzz_seed(finding_.seed, fixed, module_).verdict == finding_.verdict;
  }
  [[nodiscard]] bool cures(const std::vector<kv::Fix>& fixes, std::uint32_t timings) const {
    for (std::uint32_t timing = 0; timing < timings; ++timing) {
      if (shows(timing, fixes)) return false;
    }
    return true;
  }

 private:
  const FuzzFinding& finding_;
  const FuzzOptions& options_;
  const kv::Module& module_;
};

std::string holes_of(const std::vector<kv::Fix>& cure) {
  return fmt::format("{}", fmt::join(cure | std::views::transform(&kv::Fix::hole), " and "));
}

}  // namespace

std::vector<kv::Fix> fixes_of(const FuzzOptions& options, const kv::Module& module) {
  kv::Options chosen(module.options());
  for (const auto& [key, value] : options.settings) {
    if (!chosen.set(key, value)) return {};  // an invalid setting was reported when the run was made
  }
  return module.fixes(chosen);
}

FixEvidence try_fixes(const FuzzFinding& finding, const FuzzOptions& options, const kv::Module& module) {
  FixEvidence evidence;
  const std::vector<kv::Fix> fixes = fixes_of(options, module);
  if (fixes.empty() || finding.verdict == FuzzVerdict::error) return evidence;
  const Trials trials(finding, options, module);
  while (evidence.timings < least_timings ||
         (evidence.timings < most_timings && evidence.found < enough_found)) {
    if (trials.shows(evidence.timings++, {})) ++evidence.found;
  }
  for (const kv::Fix& fix : fixes) {
    if (trials.cures({fix}, evidence.timings)) evidence.cures.push_back({fix});
  }
  if (!evidence.cures.empty()) return evidence;
  for (std::size_t i = 0; i < fixes.size(); ++i) {
    for (std::size_t j = i + 1; j < fixes.size(); ++j) {
      if (trials.cures({fixes[i], fixes[j]}, evidence.timings))
        evidence.cures.push_back({fixes[i], fixes[j]});
    }
  }
  return evidence;
}

std::string describe(const FixEvidence& evidence) {
  if (evidence.cures.empty()) return "";
  std::vector<std::string> holes, whats;
  for (const auto& cure : evidence.cures) {
    holes.push_back(holes_of(cure));
    for (const kv::Fix& fix : cure) {
      if (std::ranges::find(whats, fix.what) == whats.end()) whats.push_back(fix.what);
    }
  }
  const bool are_pairs = evidence.cures.front().size() > 1, are_many = evidence.cures.size() > 1;
  const char* fixes = are_pairs ? (are_many ? "with either pair of fixes" : "with both fixes")
                                : (are_many ? "with either fix" : "with its fix");
  return fmt::format("{}: {} ({} 0 of {} timings show it, without {} of {})", fmt::join(holes, " or "),
                     fmt::join(whats, "; "), fixes, evidence.timings, evidence.found, evidence.timings);
}

void explain(FuzzFinding& finding, const FuzzOptions& options, const kv::Module& module) {
  const FixEvidence evidence = try_fixes(finding, options, module);
  if (evidence.cures.empty()) return;
  finding.cause = describe(evidence);
  for (const kv::Fix& fix : evidence.cures.front()) finding.fixed.push_back(fix.option);
}

}  // namespace loch::fuzz
