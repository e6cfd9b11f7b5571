// Sizes of keys and values: a deterministic function from a 64-bit word to a size, whose results follow a
// given distribution. Sizes is immutable and shared by all threads.
//
// The size of a key is drawn from its record number, and that of a value from its key and version (writer and
// sequence number), so that whoever reads a value can compute how long it must be.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace loch::workloads {

enum class SizeKind : std::uint8_t {
  fixed,      // every size is `most`
  uniform,    // any size from least to most, all equally likely
  zipfian,    // YCSB's ZipfianGenerator over least … most: the smallest is the most frequent
  pareto,     // generalised Pareto with location, scale and shape
  histogram,  // sizes and counts from a file in YCSB's histogram format
  etc,        // Facebook's ETC pool (Atikoglu et al., SIGMETRICS 2012, section 5)
  usr,        // Facebook's USR pool (Atikoglu et al., SIGMETRICS 2012, section 3)
};
[[nodiscard]] std::string_view name(SizeKind kind);
[[nodiscard]] const std::vector<std::string>& size_kind_names();

// A histogram of sizes, in the file format of YCSB's HistogramGenerator. First line "BlockSize<tab>B", then
// lines "I<tab>COUNT": COUNT draws of (I + 1) * B bytes.
struct SizeHistogram {
  std::uint32_t block = 1;
  std::vector<std::uint64_t> counts;  // at index I: the COUNT of the line "I<tab>COUNT"
};
// Parses a histogram file; `file` is its name for errors, which also name the line.
[[nodiscard]] Result<SizeHistogram> parse_size_histogram(std::string_view text, std::string_view file);

struct SizeSpec {
  SizeKind kind = SizeKind::fixed;
  std::uint32_t least = 1;  // bytes; smaller draws are raised to this
  std::uint32_t most = 1;   // bytes; larger draws are cut to this
  // Parameters of SizeKind::pareto, in bytes: size = location + scale * ((1-u)^-shape - 1) / shape for
  // uniform u.
  double location = 15, scale = 214.476, shape = 0.348238;
  std::string file;          // file name for SizeKind::histogram
  std::uint32_t pieces = 1;  // a size is the sum of this many draws (YCSB's fieldcount)
};

// Whether sizes are for keys or for values: the published distributions of the two differ.
enum class SizedData : std::uint8_t { key, value };

class Sizes {
 public:
  // Fails on a contradictory spec; the message begins with the fault ("0 bytes; expected at least 1"). Reads
  // the histogram's file.
  [[nodiscard]] static Result<std::shared_ptr<const Sizes>> make(const SizeSpec& spec, SizedData of);

  // The size in bytes that `word` stands for; equal words give equal sizes. Words that are uniformly
  // distributed, such as hash values, give sizes of the requested distribution.
  [[nodiscard]] std::uint32_t of(std::uint64_t word) const;
  [[nodiscard]] bool is_fixed() const { return least_ == most_; }
  // Bounds of all sizes in bytes.
  [[nodiscard]] std::uint32_t least() const { return least_; }
  [[nodiscard]] std::uint32_t most() const { return most_; }
  [[nodiscard]] const SizeSpec& spec() const { return spec_; }
  // Share (0 to 1) of single draws that exceed spec().most and are therefore cut to it.
  [[nodiscard]] double cut_share() const { return cut_share_; }
  // Inverse of the distribution function for 0 < u < 1: one draw in bytes, not yet bounded or rounded down.
  [[nodiscard]] double quantile(double u) const;

 private:
  Sizes(const SizeSpec& spec, SizedData of) : spec_(spec), of_(of) {}
  [[nodiscard]] std::uint32_t draw(std::uint64_t word) const;

  SizeSpec spec_;
  SizedData of_;
  std::uint32_t least_ = 1, most_ = 1;
  double cut_share_ = 0;
  // Steps of a discrete distribution: cumulative share, size in bytes.
  std::vector<std::pair<double, std::uint32_t>> steps_;
  std::shared_ptr<const class Zipfian> zipfian_;
};

}  // namespace loch::workloads
