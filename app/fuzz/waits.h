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

// Which of a sequence of consecutive seeds found the variant.
struct Sightings {
  std::uint64_t seeds = 0;           // number of seeds that were run
  std::vector<std::uint64_t> finds;  // numbers of the finding seeds, counted from 1, ascending
  // Number of finds by verdict and profile, such as "violated, in `hot`".
  std::map<std::string, std::uint64_t> by;
  std::uint64_t errors = 0;  // number of seeds whose run could not be made; they count as finding nothing
  friend bool operator==(const Sightings&, const Sightings&) = default;
};

// Number of seeds that were run until a find. If is_more is true, the seeds ended without a find, and the
// number is a lower bound.
struct Wait {
  std::uint64_t seeds = 0;
  bool is_more = false;
  friend bool operator==(const Wait&, const Wait&) = default;
};
[[nodiscard]] std::string to_string(Wait wait);

struct WaitStatistics {
  std::uint64_t starts = 0;  // number of starts that ended with a find
  // Nearest-rank percentiles of the waits. A last wait that ended without a find counts as longer than all
  // others.
  Wait median, ninetieth;
  // The share of seeds that find the variant, with its 95 % interval (Wilson). To avoid bias, the last find
  // is left out if it ended the measurement.
  double share = 0, share_low = 0, share_high = 0;
};

// Statistics of the first `starts` starts (at least 1), or of fewer if there were fewer finds.
[[nodiscard]] WaitStatistics waits_of(const Sightings& sightings, std::uint64_t starts);

}  // namespace loch::fuzz
