// How many seeds it takes to find something: a distribution over independent starts, made of one stretch of
// seeds in which every seed that finds it is noted.
//
// Each start begins at the seed behind the one that ended its predecessor. A seed's scenario is drawn from
// a hash of its number, so that seeds find it or not independently of each other, and the waits of starts
// that share no seed are independent. Starts spread evenly over the stretch would not be: all that lie
// before one and the same find end there, and a hundred of them say no more than the few finds do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace loch::fuzz {

// The finds of one stretch of seeds.
struct Sightings {
  std::uint64_t seeds = 0;                  // were run, from the first on
  std::vector<std::uint64_t> finds;         // which of them found it, counted from 1, ascending
  std::map<std::string, std::uint64_t> by;  // by verdict and profile: "violated, in `hot`"
  std::uint64_t errors = 0;                 // seeds whose run could not be made; they find nothing
  friend bool operator==(const Sightings&, const Sightings&) = default;
};

// A number of seeds, or more than that many: the stretch was over.
struct Wait {
  std::uint64_t seeds = 0;
  bool is_more = false;
  friend bool operator==(const Wait&, const Wait&) = default;
};
[[nodiscard]] std::string to_string(Wait wait);

struct WaitStatistics {
  std::uint64_t starts = 0;  // that found it
  // Over those starts and the one that the stretch's end cut off, which counts as longer than any. Nearest
  // rank.
  Wait median, ninetieth;
  // The share of seeds that find it, with its interval of 95 % (Wilson). Without bias where the stretch has
  // its full length; where it ended at the last of the starts, the last find is left out of it.
  double share = 0, share_low = 0, share_high = 0;
};

// Of at most `starts` starts: later finds are not looked at. starts > 0.
[[nodiscard]] WaitStatistics waits_of(const Sightings& sightings, std::uint64_t starts);

}  // namespace loch::fuzz
