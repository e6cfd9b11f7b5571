// Records values in log-linear buckets, and computes means, percentiles and merges.
#include "common/measure/histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace loch::measure {

std::int64_t Histogram::highest(Place at) {
  if (at.octave <= 1) return static_cast<std::int64_t>(at.octave * octave_buckets + at.bucket);
  const std::uint64_t step = std::uint64_t{1} << (at.octave - 1);
  return static_cast<std::int64_t>((octave_buckets + at.bucket) * step + step - 1);
}

Histogram::Octave* Histogram::add_octave(std::size_t octave) {
  octaves_[octave] = std::make_unique<Octave>();
  return octaves_[octave].get();
}

template <typename F>
void Histogram::each(F visit) const {
  for (std::size_t octave = 0; octave < octaves; ++octave) {
    if (octaves_[octave] == nullptr) continue;
    for (std::size_t bucket = 0; bucket < octave_buckets; ++bucket) {
      const std::uint64_t n = (*octaves_[octave])[bucket];
      if (n != 0 && !visit(highest({octave, bucket}), n)) return;
    }
  }
}

void Histogram::merge(const Histogram& other) {
  if (other.count_ == 0) return;
  for (std::size_t octave = 0; octave < octaves; ++octave) {
    if (other.octaves_[octave] == nullptr) continue;
    if (octaves_[octave] == nullptr) octaves_[octave] = std::make_unique<Octave>();
    for (std::size_t i = 0; i < octave_buckets; ++i) (*octaves_[octave])[i] += (*other.octaves_[octave])[i];
  }
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  count_ += other.count_;
  sum_ += other.sum_;
}

double Histogram::mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

std::int64_t Histogram::percentile(double percent) const {
  if (count_ == 0) return 0;
  const double share = std::clamp(percent, 0.0, 100.0) / 100.0 * static_cast<double>(count_);
  const auto wanted = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(share - 1e-9)));
  std::uint64_t seen = 0;
  std::int64_t answer = max_;
  each([&](std::int64_t value, std::uint64_t n) {
    seen += n;
    if (seen < wanted) return true;
    answer = std::clamp(value, min_, max_);
    return false;
  });
  return answer;
}

std::vector<std::pair<std::int64_t, std::uint64_t>> Histogram::buckets() const {
  std::vector<std::pair<std::int64_t, std::uint64_t>> all;
  each([&](std::int64_t value, std::uint64_t n) {
    all.emplace_back(value, n);
    return true;
  });
  return all;
}

std::vector<std::pair<std::int64_t, std::uint64_t>> Histogram::coarse_buckets() const {
  constexpr std::size_t merged = 16;
  std::vector<std::pair<std::int64_t, std::uint64_t>> all;
  for (std::size_t octave = 0; octave < octaves; ++octave) {
    if (octaves_[octave] == nullptr) continue;
    for (std::size_t bucket = 0; bucket < octave_buckets; bucket += merged) {
      std::uint64_t n = 0;
      for (std::size_t i = 0; i < merged; ++i) n += (*octaves_[octave])[bucket + i];
      if (n != 0) all.emplace_back(highest({octave, bucket + merged - 1}), n);
    }
  }
  return all;
}

Histogram Histogram::restore(const std::vector<std::pair<std::int64_t, std::uint64_t>>& buckets,
                             std::int64_t min, std::int64_t max, double sum) {
  Histogram restored;
  for (const auto& [value, n] : buckets) restored.record(value, n);
  if (restored.count_ == 0) return restored;
  restored.min_ = min;
  restored.max_ = max;
  restored.sum_ = sum;
  return restored;
}

std::string Histogram::percentile_text(double unit) const {
  std::string text =
      fmt::format("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
  std::uint64_t seen = 0;
  double square_sum = 0;
  each([&](std::int64_t value, std::uint64_t n) {
    const double distance = static_cast<double>(value) - mean();
    square_sum += distance * distance * static_cast<double>(n);
    return true;
  });
  // Percentiles are printed as HdrHistogram does: five steps for each halving of the distance to 100 %.
  double level = 0;
  each([&](std::int64_t value, std::uint64_t n) {
    seen += n;
    const double reached = 100.0 * static_cast<double>(seen) / static_cast<double>(count_);
    if (reached < level && seen != count_) return true;
    const double fraction = reached / 100.0;
    const double shown = static_cast<double>(std::min(value, max_)) / unit;
    if (seen == count_) {
      text += fmt::format("{:12.3f} {:1.12f} {:10}\n", shown, 1.0, seen);
      return false;
    }
    text += fmt::format("{:12.3f} {:1.12f} {:10} {:14.2f}\n", shown, fraction, seen, 1.0 / (1.0 - fraction));
    while (level <= reached) {
      const double halvings = std::floor(std::log2(100.0 / (100.0 - level))) + 1;
      level += 100.0 / (5.0 * std::exp2(halvings));
    }
    return true;
  });
  const double deviation = count_ == 0 ? 0 : std::sqrt(square_sum / static_cast<double>(count_));
  text += fmt::format("#[Mean    = {:12.3f}, StdDeviation   = {:12.3f}]\n", mean() / unit, deviation / unit);
  text += fmt::format("#[Max     = {:12.3f}, Total count    = {:12}]\n", static_cast<double>(max_) / unit,
                      count_);
  text += fmt::format("#[Buckets = {:12}, SubBuckets     = {:12}]\n", octaves, std::size_t{1} << linear_bits);
  return text;
}

}  // namespace loch::measure
