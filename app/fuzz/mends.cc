// Names the hole of a finding by experiment: runs the scenario again with one fix after another switched on.
#include "app/fuzz/mends.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

namespace loch::fuzz {
namespace {

// As many runs as show the finding a few times, so that none of them with a mend means something.
constexpr std::uint32_t least_timings = 12, most_timings = 48, enough_found = 5;

class Trials {
 public:
  Trials(const FuzzFinding& finding, const FuzzOptions& options, const kv::Module& module)
      : finding_(finding), options_(options), module_(module) {}

  [[nodiscard]] bool shows(std::uint32_t timing, const std::vector<kv::Mend>& mends) const {
    FuzzOptions mended = options_;
    mended.timing = timing;
    for (const kv::Mend& mend : mends) mended.settings.emplace_back(mend.option, "true");
    return fuzz_seed(finding_.seed, mended, module_).verdict == finding_.verdict;
  }
  [[nodiscard]] bool cures(const std::vector<kv::Mend>& mends, std::uint32_t timings) const {
    for (std::uint32_t timing = 0; timing < timings; ++timing) {
      if (shows(timing, mends)) return false;
    }
    return true;
  }

 private:
  const FuzzFinding& finding_;
  const FuzzOptions& options_;
  const kv::Module& module_;
};

std::string holes_of(const std::vector<kv::Mend>& cure) {
  return fmt::format("{}", fmt::join(cure | std::views::transform(&kv::Mend::hole), " and "));
}

}  // namespace

std::vector<kv::Mend> mends_of(const FuzzOptions& options, const kv::Module& module) {
  kv::Options chosen(module.options());
  for (const auto& [key, value] : options.settings) {
    if (!chosen.set(key, value)) return {};  // the run has said so
  }
  return module.mends(chosen);
}

MendEvidence try_mends(const FuzzFinding& finding, const FuzzOptions& options, const kv::Module& module) {
  MendEvidence evidence;
  const std::vector<kv::Mend> mends = mends_of(options, module);
  if (mends.empty() || finding.verdict == FuzzVerdict::error) return evidence;
  const Trials trials(finding, options, module);
  while (evidence.timings < least_timings ||
         (evidence.timings < most_timings && evidence.found < enough_found)) {
    if (trials.shows(evidence.timings++, {})) ++evidence.found;
  }
  for (const kv::Mend& mend : mends) {
    if (trials.cures({mend}, evidence.timings)) evidence.cures.push_back({mend});
  }
  if (!evidence.cures.empty()) return evidence;
  for (std::size_t i = 0; i < mends.size(); ++i) {
    for (std::size_t j = i + 1; j < mends.size(); ++j) {
      if (trials.cures({mends[i], mends[j]}, evidence.timings))
        evidence.cures.push_back({mends[i], mends[j]});
    }
  }
  return evidence;
}

std::string describe(const MendEvidence& evidence) {
  if (evidence.cures.empty()) return "";
  std::vector<std::string> holes, whats;
  for (const auto& cure : evidence.cures) {
    holes.push_back(holes_of(cure));
    for (const kv::Mend& mend : cure) {
      if (std::ranges::find(whats, mend.what) == whats.end()) whats.push_back(mend.what);
    }
  }
  const bool are_pairs = evidence.cures.front().size() > 1, are_many = evidence.cures.size() > 1;
  const char* mends = are_pairs ? (are_many ? "with either pair of mends" : "with both mends")
                                : (are_many ? "with either mend" : "with its mend");
  return fmt::format("{}: {} ({} 0 of {} timings show it, without {} of {})", fmt::join(holes, " or "),
                     fmt::join(whats, "; "), mends, evidence.timings, evidence.found, evidence.timings);
}

void explain(FuzzFinding& finding, const FuzzOptions& options, const kv::Module& module) {
  const MendEvidence evidence = try_mends(finding, options, module);
  if (evidence.cures.empty()) return;
  finding.cause = describe(evidence);
  for (const kv::Mend& mend : evidence.cures.front()) finding.mended.push_back(mend.option);
}

}  // namespace loch::fuzz
