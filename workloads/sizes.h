// How long keys and values are: a size as a deterministic function of a 64-bit word, whose values follow a
// distribution. Sizes is immutable and shared by all threads.
//
// A record's key has the size that its number's word draws; a value that of its key and version (its writer
// and that writer's sequence number), so that whoever reads a value knows how long it has to be.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace loch::workloads {

enum class SizeKind : std::uint8_t {
  fixed,      // always `most`
  uniform,    // least … most, both included
  zipfian,    // YCSB's ZipfianGenerator over least … most: the smallest is the most frequent
  pareto,     // generalised Pareto with location, scale and shape
  histogram,  // of a file in YCSB's form
  etc,        // Facebook's ETC pool (Atikoglu et al., SIGMETRICS 2012, section 5)
  usr,        // Facebook's USR pool (the same, section 3)
};
[[nodiscard]] std::string_view name(SizeKind kind);
[[nodiscard]] const std::vector<std::string>& size_kind_names();

// The file of a histogram: YCSB's HistogramGenerator reads the same. First line "BlockSize<tab>B", then lines
// "I<tab>COUNT": COUNT draws of (I + 1) * B bytes.
struct SizeHistogram {
  std::uint32_t block = 1;
  std::vector<std::uint64_t> counts;  // by I
};
// The error names the file and the line.
[[nodiscard]] Result<SizeHistogram> parse_size_histogram(std::string_view text, std::string_view file);

struct SizeSpec {
  SizeKind kind = SizeKind::fixed;
  std::uint32_t least = 1;  // bytes; a draw below is taken as this
  std::uint32_t most = 1;   // bytes; a draw above is taken as this
  // pareto, in bytes: location + scale * ((1-u)^-shape - 1) / shape.
  double location = 15, scale = 214.476, shape = 0.348238;
  std::string file;          // histogram
  std::uint32_t pieces = 1;  // number of draws whose sum is the size (YCSB's fieldcount)
};

// Of which data: the published distributions of keys and of values differ.
enum class SizedData : std::uint8_t { key, value };

class Sizes {
 public:
  // The error's message begins with what is wrong of the spec ("least 20 is above most 10"). Reads the
  // histogram's file.
  [[nodiscard]] static Result<std::shared_ptr<const Sizes>> make(const SizeSpec& spec, SizedData of);

  // The size that `word` draws: the same word, the same size. Words that are hashes give the distribution.
  [[nodiscard]] std::uint32_t of(std::uint64_t word) const;
  [[nodiscard]] bool is_fixed() const { return least_ == most_; }
  // No draw is outside of these.
  [[nodiscard]] std::uint32_t least() const { return least_; }
  [[nodiscard]] std::uint32_t most() const { return most_; }
  [[nodiscard]] const SizeSpec& spec() const { return spec_; }
  // The share of single draws that would be above spec().most, 0 … 1.
  [[nodiscard]] double cut_share() const { return cut_share_; }
  // One draw in bytes, before it is bounded and rounded down: the inverse of the distribution function.
  // 0 < u < 1.
  [[nodiscard]] double quantile(double u) const;

 private:
  Sizes(const SizeSpec& spec, SizedData of) : spec_(spec), of_(of) {}
  [[nodiscard]] std::uint32_t draw(std::uint64_t word) const;

  SizeSpec spec_;
  SizedData of_;
  std::uint32_t least_ = 1, most_ = 1;
  double cut_share_ = 0;
  std::vector<std::pair<double, std::uint32_t>> steps_;  // discrete ones: cumulative share, bytes
  std::shared_ptr<const class Zipfian> zipfian_;
};

}  // namespace loch::workloads
