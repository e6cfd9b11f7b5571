// Computes how many seeds it takes to find a variant, as a distribution over independent starts. All starts
// are taken from one sequence of seeds in which every seed that finds the variant is noted.
//
// Each start begins after the seed that ended the previous start. A seed's scenario is drawn from a hash of
// the seed's number, so that seeds find the variant independently of each other, and the waits of starts that
// share no seed are independent. Evenly spaced starts would not be independent, because all starts before the
// same find would end with that find.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace loch::fuzz {

// Which of a number of consecutive seeds found a known-bad variant or a hole (known fault).
struct Sightings {
  std::uint64_t seeds = 0;  // number of seeds that were run
  // 1-based positions of the seeds that found the known-bad variant, ascending
  std::vector<std::uint64_t> finds;
  // Number of seeds that found the known-bad variant, by verdict and kind of scenario, such as "violated, in
  // `hot`".
  std::map<std::string, std::uint64_t> by;
  std::uint64_t errors = 0;  // number of seeds whose run could not be made; they count as finding nothing
  friend bool operator==(const Sightings&, const Sightings&) = default;
};

// Number of seeds that were run until one of them found the known-bad variant. If is_more is true, none of
// them found it, and the number is a lower bound.
struct Wait {
  std::uint64_t seeds = 0;
  bool is_more = false;
  friend bool operator==(const Wait&, const Wait&) = default;
};
[[nodiscard]] std::string to_string(Wait wait);

struct WaitStatistics {
  std::uint64_t starts = 0;  // number of starts after which a seed found the known-bad variant
  // Nearest-rank percentiles of the number of seeds from a start to the seed that found the known-bad
  // variant. If no seed found it after the last start, that wait counts as longer than all others.
  Wait median, ninetieth;
  // The share of seeds that find the known-bad variant, with its 95 % interval (Wilson). If the measurement
  // ended when a seed had found the variant, that seed is left out, to avoid bias.
  double share = 0, share_low = 0, share_high = 0;
};

// Statistics of the first `starts` waits for a seed that finds the known-bad variant (`starts` at least 1),
// or of fewer waits if fewer seeds found it.
[[nodiscard]] WaitStatistics waits_of(const Sightings& sightings, std::uint64_t starts);

}  // namespace loch::fuzz
