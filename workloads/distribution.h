// Which record an operation asks for. A Chooser is immutable and shared by all threads; the random
// numbers come from the caller's own stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/rng.h"

namespace loch::workloads {

enum class Distribution : std::uint8_t {
  uniform,
  zipfian,    // as YCSB: scrambled, ranks drawn over 10^10 items with theta 0.99
  zipfian_n,  // Zipf(theta) over the real number of records, ranks scattered over the records
  latest,     // newest records most often
  hotspot,    // a contiguous prefix takes a given share of the operations
  exponential,
  sequential,  // 0, 1, 2, … each thread from its own place
  locality,    // a share of the operations goes to the node's own part of the records
};
[[nodiscard]] std::string_view name(Distribution distribution);
[[nodiscard]] const std::vector<std::string>& distribution_names();
[[nodiscard]] Result<Distribution> parse_distribution(std::string_view text, std::string_view what);

struct DistributionSpec {
  Distribution kind = Distribution::uniform;
  double zipf_theta = 0.99;                    // zipfian_n, latest; YCSB's zipfian is 0.99 whatever is asked
  double hotspot_data = 0.2;                   // share of the records that are hot
  double hotspot_operations = 0.8;             // share of the operations that go there
  double exponential_percentile = 95;          // this per cent of the operations fall …
  double exponential_fraction = 0.8571428571;  // … go to this fraction of the records
  // locality: this share of the operations draws from the records that belong to the client's node
  // (record i belongs to node i mod nodes, where the preload puts its value: equal parts), the rest
  // uniformly from all records, its own included; 0 is uniform (Nessie 2015, section 6.2, figure 9).
  double locality = 0.8;
};

// Gray et al. 1994 as YCSB codes it. An approximation: P(k) = U(k+1) − U(k) for k > 1.
class Zipfian {
 public:
  Zipfian(std::uint64_t items, double theta);                 // zeta computed
  Zipfian(std::uint64_t items, double theta, double zeta_n);  // zeta given
  // Rank in [0, items), 0 the most popular.
  [[nodiscard]] std::uint64_t rank(double u) const;
  [[nodiscard]] double zeta() const { return zeta_n_; }
  // The probability that the algorithm gives to ranks below k: U(k).
  [[nodiscard]] double below(std::uint64_t k) const;

 private:
  std::uint64_t items_;
  double theta_, alpha_, zeta_n_, eta_, second_;
};

// Sum of i^-theta for i = 1 … n: exact up to 10^6 terms, Euler–Maclaurin beyond.
[[nodiscard]] double zeta(std::uint64_t n, double theta);

// The per-thread state of drawing.
struct Drawer {
  Rng* rng = nullptr;
  std::uint64_t records = 0;  // records that are there now (acknowledged inserts included)
  std::uint32_t node = 0, nodes = 1;
  std::uint64_t* sequence = nullptr;  // sequential: the thread's own place
};

class Chooser {
 public:
  virtual ~Chooser() = default;
  // A record number in [0, drawer.records); records > 0.
  [[nodiscard]] virtual std::uint64_t next(const Drawer& drawer) const = 0;
};

// `records`: how many are there when the run starts; `expected_inserts`: how many more may come.
[[nodiscard]] Result<std::unique_ptr<Chooser>> make_chooser(const DistributionSpec& spec,
                                                            std::uint64_t records,
                                                            std::uint64_t expected_inserts);

}  // namespace loch::workloads
