// Translates the times that one process of a run recorded to the clock of the run's reference process, with a
// bound on the error, so that the histories of several processes can be judged as one.
//
// A process compares its clock with the reference clock several times in a run; each comparison, an
// alignment, gives an offset and a bound on its error. Between two alignments the offset is interpolated
// linearly. From one alignment to the next the clock's rate is assumed to stay in a range of
// ClockBounds::wander_ppm, or as wide as the alignments prove; where alignments are left out because their
// own errors are large, in a range that is as many times as wide as there are steps between those that are
// used. A clock whose offset changes faster than ClockBounds::drift_ppm is not trusted: see
// ClockMap::is_untrusted().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/units.h"

namespace loch::check {

// One comparison of a process's clock with the reference clock.
struct ClockSample {
  Nanos at = 0;          // time of the process's own clock, in ns
  Nanos offset = 0;      // reference clock minus this process's clock at that time, in ns
  Nanos error = 0;       // bound on the error of `offset`, in ns
  Nanos round_trip = 0;  // shortest round trip, in ns, of the questions that it was made of; 0: not known
  bool operator==(const ClockSample&) const = default;
};

struct ClockBounds {
  // Two sound clocks differ in rate by at most this much, in parts per million: twice the tolerance of 100
  // ppm that Ethernet requires of its oscillators.
  double drift_ppm = 200;
  // From one comparison with the reference clock to the next, a clock's rates differ from each other by at
  // most this much, in parts per million.
  double wander_ppm = 2;
};

// A question for the reference clock's time and its answer: when the question left and when the answer was
// there, both by the own clock, and what the reference clock showed at some instant between.
struct ClockAnswer {
  Nanos asked = 0, heard = 0;
  Nanos reference = 0;
};

// Compares two clocks by a row of such questions. The way there bounds the offset from above and the way back
// from below, each by as much as it took. The fastest way there and the fastest way back rarely belong to one
// question, so that the bound is that of both, from whichever questions they are, widened by what the clocks
// may have drifted apart between (ClockBounds::drift_ppm). The error is never more than half of the shortest
// round trip and the drift within it. `answers` are ordered by time and not empty.
[[nodiscard]] ClockSample compare_clocks(std::span<const ClockAnswer> answers, const ClockBounds& bounds);

class ClockMap {
 public:
  // The map of the reference process, or of a run of one process: times stay as they are, without error.
  ClockMap() = default;
  // `samples` are ordered by time. Samples that would only increase the map's error are left out.
  ClockMap(std::vector<ClockSample> samples, const ClockBounds& bounds);

  // The earliest and the latest time on the reference clock, in ns, at which this process's clock may have
  // shown the time `own`; never less than 0.
  [[nodiscard]] Nanos earliest(Nanos own) const;
  [[nodiscard]] Nanos latest(Nanos own) const;

  // The largest error, in ns, of a time between the first and the last comparison with the reference clock.
  [[nodiscard]] Nanos error() const { return error_; }
  // The least drift against the reference clock, in parts per million, that the comparisons of the clocks
  // prove whatever their errors were.
  [[nodiscard]] double sure_drift_ppm() const { return sure_drift_ppm_; }
  // Drift over the whole run, in parts per million; negative if this process's clock gains on the reference
  // clock.
  [[nodiscard]] double drift_ppm() const { return drift_ppm_; }
  // Whether the clock provably drifted by more than ClockBounds::drift_ppm, so that nothing can be said about
  // its times between the comparisons with the reference clock.
  [[nodiscard]] bool is_untrusted() const { return sure_drift_ppm_ > bounds_.drift_ppm; }
  [[nodiscard]] const std::vector<ClockSample>& samples() const { return samples_; }

 private:
  struct At {
    double offset = 0, error = 0;
  };
  [[nodiscard]] At at(Nanos own) const;
  void learn_drift();
  void learn_wander();
  void leave_out_poor();
  // The range, in parts per million, of the clock's rates between samples_[i - 1] and samples_[i].
  [[nodiscard]] double wander_before(std::size_t i) const {
    return wander_ppm_ * static_cast<double>(steps_[i]);
  }

  std::vector<ClockSample> samples_;
  // Of each of samples_ the number of comparisons since the one before it, those left out included.
  std::vector<std::uint32_t> steps_;
  ClockBounds bounds_;
  double drift_ppm_ = 0, sure_drift_ppm_ = 0, wander_ppm_ = 0;
  Nanos error_ = 0;
};

}  // namespace loch::check
