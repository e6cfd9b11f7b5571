// Fits a piecewise linear map from a process's clock to the reference clock through all comparisons of the
// two clocks during the run, and bounds the map's error.
#include "common/check/clock_map.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace loch::check {
namespace {

constexpr double million = 1e6;

// Change of the clock's offset from one comparison with the reference clock to another, in parts per million
// of the time between them.
double slope_ppm(const ClockSample& from, const ClockSample& to) {
  return static_cast<double>(to.offset - from.offset) * million / static_cast<double>(to.at - from.at);
}

// Bound on the error of slope_ppm() (drift between two comparisons of clocks), in parts per million.
double slope_error_ppm(const ClockSample& from, const ClockSample& to) {
  return static_cast<double>(from.error + to.error) * million / static_cast<double>(to.at - from.at);
}

// Bound on the error, in ns, of interpolation between two comparisons at `part` of the way from one to the
// other: the comparisons' errors weigh as the comparisons do, and the offset of a clock whose rate stays
// within a range of `wander_ppm` leaves its chord by at most part * (1 - part) times what that range makes of
// the whole way.
double between(const ClockSample& from, const ClockSample& to, double part, double wander_ppm) {
  const double whole = static_cast<double>(to.at - from.at) * wander_ppm / million;
  return static_cast<double>(from.error) * (1 - part) + static_cast<double>(to.error) * part +
         part * (1 - part) * whole;
}

// The largest value of between() on the whole way.
double most_between(const ClockSample& from, const ClockSample& to, double wander_ppm) {
  const double whole = static_cast<double>(to.at - from.at) * wander_ppm / million;
  const auto slope = static_cast<double>(to.error - from.error);
  if (whole <= 0) return static_cast<double>(std::max(from.error, to.error));
  return between(from, to, std::clamp(0.5 + slope / (2 * whole), 0.0, 1.0), wander_ppm);
}

double sure_ppm(const ClockSample& from, const ClockSample& to) {
  return std::abs(slope_ppm(from, to)) - slope_error_ppm(from, to);
}

}  // namespace

ClockSample compare_clocks(std::span<const ClockAnswer> answers, const ClockBounds& bounds) {
  struct Range {
    Nanos at = 0;  // by the own clock
    double least = 0, most = 0;
  };
  const auto drift = [&](Nanos span) { return static_cast<double>(span) * bounds.drift_ppm / million; };
  std::vector<Range> ranges;
  ranges.reserve(answers.size());
  Nanos round_trip = std::numeric_limits<Nanos>::max();
  ClockSample best;
  for (const ClockAnswer& one : answers) {
    const Nanos whole = one.heard - one.asked, half = whole / 2;
    // the reference clock was read at most so far from the middle of the round trip
    const double away = drift(whole - half);
    ranges.push_back({one.asked + half, static_cast<double>(one.reference - one.heard) - away,
                      static_cast<double>(one.reference - one.asked) + away});
    if (whole >= round_trip) continue;
    round_trip = whole;
    best = {one.asked + half, one.reference - one.asked - half, whole - half + 1 + static_cast<Nanos>(away),
            whole};
  }
  const auto narrow = [&](Range& own, const Range& other) {
    const double slack = drift(std::abs(own.at - other.at));
    own.least = std::max(own.least, other.least - slack);
    own.most = std::min(own.most, other.most + slack);
  };
  // Each range by those behind it: the best pair of a way there and a way back meets at the earlier one.
  for (std::size_t i = ranges.size() - 1; i > 0; --i) narrow(ranges[i - 1], ranges[i]);
  const Range& narrowest =
      *std::ranges::min_element(ranges, {}, [](const Range& one) { return one.most - one.least; });
  const double error = (narrowest.most - narrowest.least) / 2;
  // Only a clock that drifts beyond the bound contradicts itself; its best answer is then left to ClockMap.
  if (error < 0 || error + 2 > static_cast<double>(best.error)) return best;
  return {narrowest.at, std::llround(narrowest.least + error), static_cast<Nanos>(std::ceil(error)) + 1,
          round_trip};
}

ClockMap::ClockMap(std::vector<ClockSample> samples, const ClockBounds& bounds)
    : samples_(std::move(samples)), bounds_(bounds) {
  const auto [after, end] = std::ranges::unique(samples_, {}, &ClockSample::at);
  samples_.erase(after, end);
  const Nanos last = samples_.empty() ? 0 : samples_.back().at;
  steps_.assign(samples_.size(), 1);
  // What is left out below has been evidence of how the rate changes.
  learn_drift();
  learn_wander();
  leave_out_poor();
  if (!samples_.empty()) error_ = static_cast<Nanos>(std::ceil(at(last).error));
  for (const ClockSample& sample : samples_) error_ = std::max(error_, sample.error);
  for (std::size_t i = 1; i < samples_.size(); ++i)
    error_ = std::max(
        error_, static_cast<Nanos>(std::ceil(most_between(samples_[i - 1], samples_[i], wander_before(i)))));
}

// Leaves out inexact samples. A comparison of clocks under load may have a long round trip and would then
// only add to the error of the map.
void ClockMap::leave_out_poor() {
  const auto reach = [&](const ClockSample& good, Nanos away) {
    return static_cast<double>(good.error) + static_cast<double>(away) * bounds_.drift_ppm / million;
  };
  // The last sample is left out if its error is larger than the error of the sample before it plus the most
  // that the clocks can have drifted apart since.
  while (samples_.size() > 1) {
    const ClockSample &last = samples_.back(), &before = samples_[samples_.size() - 2];
    if (static_cast<double>(last.error) <= reach(before, last.at - before.at)) break;
    samples_.pop_back();
    steps_.pop_back();
  }
  // A sample between two others is left out if interpolation between those two, without it, has the smaller
  // error, although the rate may then have changed at each step.
  for (std::size_t i = 1; i + 1 < samples_.size();) {
    const ClockSample &before = samples_[i - 1], &own = samples_[i], &after = samples_[i + 1];
    const double with =
        std::max(most_between(before, own, wander_before(i)), most_between(own, after, wander_before(i + 1)));
    if (most_between(before, after, wander_before(i) + wander_before(i + 1)) >= with) {
      ++i;
    } else {
      steps_[i + 1] += steps_[i];
      steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(i));
      samples_.erase(samples_.begin() + static_cast<std::ptrdiff_t>(i));
      if (i > 1) --i;
    }
  }
}

void ClockMap::learn_drift() {
  if (samples_.size() < 2) return;
  drift_ppm_ = slope_ppm(samples_.front(), samples_.back());
  sure_drift_ppm_ = std::max(0.0, sure_ppm(samples_.front(), samples_.back()));
  for (std::size_t i = 1; i < samples_.size(); ++i)
    sure_drift_ppm_ = std::max(sure_drift_ppm_, sure_ppm(samples_[i - 1], samples_[i]));
}

// The range of the clock's rates between two comparisons with the reference clock may be wider than
// ClockBounds::wander_ppm. Where the change of the offset's slope (slope_ppm) at a comparison proves it,
// whatever the errors of the two slopes, the range counts as twice as wide as the change may have been: a
// rate that changes in the middle between two comparisons moves the slope by half at either of them.
void ClockMap::learn_wander() {
  wander_ppm_ = bounds_.wander_ppm;
  for (std::size_t i = 2; i < samples_.size(); ++i) {
    const ClockSample &first = samples_[i - 2], &second = samples_[i - 1], &third = samples_[i];
    const double change = std::abs(slope_ppm(second, third) - slope_ppm(first, second));
    const double error = slope_error_ppm(first, second) + slope_error_ppm(second, third);
    if (2 * (change - error) > bounds_.wander_ppm) wander_ppm_ = std::max(wander_ppm_, 2 * (change + error));
  }
}

ClockMap::At ClockMap::at(Nanos own) const {
  if (samples_.empty()) return {};
  const auto after = std::ranges::lower_bound(samples_, own, {}, &ClockSample::at);
  // Before the first and after the last comparison with the reference clock, this clock may drift by up to
  // ClockBounds::drift_ppm.
  if (after == samples_.begin() || after == samples_.end()) {
    const ClockSample& nearest = after == samples_.end() ? samples_.back() : *after;
    const auto away = static_cast<double>(std::abs(own - nearest.at));
    return {static_cast<double>(nearest.offset),
            static_cast<double>(nearest.error) + away * bounds_.drift_ppm / million};
  }
  const ClockSample &from = *(after - 1), &to = *after;
  const auto passed = static_cast<double>(own - from.at);
  return {static_cast<double>(from.offset) + passed * slope_ppm(from, to) / million,
          between(from, to, passed / static_cast<double>(to.at - from.at),
                  wander_before(static_cast<std::size_t>(after - samples_.begin())))};
}

Nanos ClockMap::earliest(Nanos own) const {
  if (samples_.empty()) return own;
  const At there = at(own);
  return std::max<Nanos>(0, own + static_cast<Nanos>(std::floor(there.offset - there.error)));
}

Nanos ClockMap::latest(Nanos own) const {
  if (samples_.empty()) return own;
  const At there = at(own);
  return std::max<Nanos>(0, own + static_cast<Nanos>(std::ceil(there.offset + there.error)));
}

}  // namespace loch::check
