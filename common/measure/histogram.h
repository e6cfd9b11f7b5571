// A log-linear histogram of non-negative integers (nanoseconds, bytes): every value is known to three
// significant digits, however large. Recording is a shift and an addition. Octaves are allocated on first
// use, so that hundreds of histograms stay small.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace loch::measure {

class Histogram {
 public:
  Histogram() = default;
  Histogram(Histogram&&) noexcept = default;
  Histogram& operator=(Histogram&&) noexcept = default;

  // Records `value`, or 0 if it is negative, `times` times.
  void record(std::int64_t value, std::uint64_t times = 1) {
    if (times == 0) return;
    value = std::max<std::int64_t>(value, 0);
    const Place at = place(static_cast<std::uint64_t>(value));
    Octave* octave = octaves_[at.octave].get();
    if (octave == nullptr) [[unlikely]]
      octave = add_octave(at.octave);
    (*octave)[at.bucket] += times;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
    count_ += times;
    sum_ += static_cast<double>(value) * static_cast<double>(times);
  }
  void merge(const Histogram& other);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::int64_t min() const { return count_ == 0 ? 0 : min_; }  // exact
  [[nodiscard]] std::int64_t max() const { return max_; }                    // exact
  [[nodiscard]] double mean() const;                                         // exact
  // The smallest recorded value (to three digits) that at least `percent` of the values do not
  // exceed; 0 when empty. percent in [0, 100].
  [[nodiscard]] std::int64_t percentile(double percent) const;

  // Occupied buckets as (highest value of the bucket, count), ascending.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::uint64_t>> buckets() const;
  // The counts in buckets 16 times as wide, for storing. Such a bucket is 16 wide below 1024; above, its
  // width is at most 1.6 % of the values in it.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::uint64_t>> coarse_buckets() const;
  // Restores a histogram from the results of buckets() or coarse_buckets(), min(), max() and sum().
  [[nodiscard]] static Histogram restore(const std::vector<std::pair<std::int64_t, std::uint64_t>>& buckets,
                                         std::int64_t min, std::int64_t max, double sum);
  [[nodiscard]] double sum() const { return sum_; }

  // The percentile distribution as text in the format of HdrHistogram ("Value Percentile TotalCount
  // 1/(1-Percentile)"), values divided by `unit` (1000: microseconds, if nanoseconds were recorded).
  [[nodiscard]] std::string percentile_text(double unit) const;

 private:
  // values below 2048 have a bucket each; above, each octave has 1024 buckets
  static constexpr int linear_bits = 11;
  static constexpr std::size_t octave_buckets = std::size_t{1} << (linear_bits - 1);
  static constexpr std::size_t octaves = 64 - linear_bits + 2;
  using Octave = std::array<std::uint64_t, octave_buckets>;
  struct Place {
    std::size_t octave, bucket;
  };
  // Buckets: octave 0 holds [0, 1024), octave 1 [1024, 2048), both in steps of 1; octave k > 1 holds
  // [2^(k+9), 2^(k+10)) in steps of 2^(k-1).
  [[nodiscard]] static Place place(std::uint64_t value) {
    const int width = std::bit_width(value);
    if (width < linear_bits) return {0, static_cast<std::size_t>(value)};
    const auto octave = static_cast<std::size_t>(width - linear_bits + 1);
    return {octave, static_cast<std::size_t>(value >> (octave - 1)) - octave_buckets};
  }
  Octave* add_octave(std::size_t octave);
  [[nodiscard]] static std::int64_t highest(Place place);
  template <typename F>
  void each(F visit) const;

  std::array<std::unique_ptr<Octave>, octaves> octaves_;
  std::uint64_t count_ = 0;
  std::int64_t min_ = INT64_MAX;  // INT64_MAX while the histogram is empty
  std::int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace loch::measure
