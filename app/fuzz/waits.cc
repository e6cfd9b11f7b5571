// Medians, percentiles and confidence intervals of the number of seeds until a known-bad variant is found.
#include "app/fuzz/waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace loch::fuzz {
namespace {

// The nearest-rank percentile of waits in seeds: the smallest wait that at least `share` of all waits do not
// exceed. `censored`: there is one more wait, whose length is unknown and which counts as the longest. If
// this longest wait is the percentile, `seeds` is reported as its lower bound.
Wait rank_of(const std::vector<std::uint64_t>& sorted, bool censored, double share, std::uint64_t seeds) {
  const std::size_t all = sorted.size() + (censored ? 1 : 0);
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(all)));
  if (rank == 0 || rank > sorted.size()) return {seeds, true};
  return {sorted[rank - 1], false};
}

}  // namespace

std::string to_string(Wait wait) { return fmt::format("{}{}", wait.is_more ? "> " : "", wait.seeds); }

WaitStatistics waits_of(const Sightings& sightings, std::uint64_t starts) {
  LOCH_CHECK_GT(starts, 0U);
  const std::size_t count = std::min<std::size_t>(sightings.finds.size(), starts);
  std::vector<std::uint64_t> waits;
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < count; ++i) {
    LOCH_CHECK_GT(sightings.finds[i], before);
    waits.push_back(sightings.finds[i] - before);
    before = sightings.finds[i];
  }
  std::ranges::sort(waits);
  const bool is_cut = count < starts;
  // The seeds after the last one that found the known-bad variant are a wait that has not ended: it lasts for
  // at least as many seeds. A quantile that falls on it is reported as "more than" the longest sequence of
  // seeds that found nothing.
  const std::uint64_t rest = sightings.seeds - before;
  const std::uint64_t longest = std::max(rest, waits.empty() ? 0 : waits.back());
  WaitStatistics s{.starts = count,
                   .median = rank_of(waits, is_cut, 0.5, longest),
                   .ninetieth = rank_of(waits, is_cut, 0.9, longest)};
  // If the measurement ended once the known-bad variant was found as often as required, the number of
  // findings is fixed and the number of seeds is random (inverse binomial sampling). The unbiased estimate of
  // the share of seeds that find the variant is then (findings - 1) / (seeds - 1).
  const double found = static_cast<double>(is_cut ? count : count - 1);
  const double n = static_cast<double>(is_cut ? sightings.seeds : before - 1);
  if (n <= 0) return s;
  constexpr double z = 1.959964;  // normal quantile for a central interval of 95 %
  const double p = found / n, middle = p + z * z / (2 * n),
               spread = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  s.share = p;
  s.share_low = std::max(0.0, (middle - spread) / (1 + z * z / n));
  s.share_high = std::min(1.0, (middle + spread) / (1 + z * z / n));
  return s;
}

}  // namespace loch::fuzz
