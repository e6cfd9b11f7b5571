// The distributions by which an operation's record is drawn. A Chooser is immutable and shared by all
// threads; its random numbers come from the caller's own stream.
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
  zipfian,    // YCSB's scrambled zipfian: theta 0.99, ranks drawn over 10^10 items
  zipfian_n,  // Zipf(theta) over the real number of records (or more: zipf_items), ranks scattered over them
  latest,     // the newest records are drawn most often
  // the first records (a share hotspot_data of all) get a share hotspot_operations of all operations
  hotspot,
  exponential,
  sequential,  // records 0, 1, 2, …; each client worker starts at another record
  locality,    // a share of the operations draws from the records of the client's own node
};
[[nodiscard]] std::string_view name(Distribution distribution);
[[nodiscard]] const std::vector<std::string>& distribution_names();
[[nodiscard]] Result<Distribution> parse_distribution(std::string_view text, std::string_view what);

struct DistributionSpec {
  Distribution kind = Distribution::uniform;
  double zipf_theta = 0.99;  // zipfian_n and latest; YCSB's zipfian always has 0.99
  // zipfian_n: number of popularity ranks, at least the number of records; 0: the number of records. A rank r
  // beyond the records counts as rank r mod records. So the most popular of few records are drawn about as
  // often as the most popular of very many would be.
  std::uint64_t zipf_items = 0;
  double hotspot_data = 0.2;                   // share of the records that are hot
  double hotspot_operations = 0.8;             // share of the operations that draw a hot record
  double exponential_percentile = 95;          // per cent of the draws that fall on the newest records
  double exponential_fraction = 0.8571428571;  // share of all records that count as the newest
  // Distribution::locality: the share of operations that draw from the records of the client's node (record i
  // belongs to node i mod nodes, where the preload puts its value: equal parts). The other operations draw
  // uniformly from all records; 0 is uniform (Nessie 2015, section 6.2, figure 9).
  double locality = 0.8;
};

// Draws Zipf-distributed ranks by the algorithm of Gray et al. 1994 as YCSB codes it. It is an approximation:
// P(k) = U(k+1) − U(k) for k > 1, with U = below().
class Zipfian {
 public:
  Zipfian(std::uint64_t items, double theta);                 // computes zeta(items, theta)
  Zipfian(std::uint64_t items, double theta, double zeta_n);  // zeta_n: zeta(items, theta)
  // Maps u in [0, 1) to a rank in [0, items); rank 0 is the most popular.
  [[nodiscard]] std::uint64_t rank(double u) const;
  [[nodiscard]] double zeta() const { return zeta_n_; }
  // U(k): the probability that rank() gives a rank below k.
  [[nodiscard]] double below(std::uint64_t k) const;

 private:
  std::uint64_t items_;
  double theta_, alpha_, zeta_n_, eta_, second_;
};

// Sum of i^-theta for i = 1 … n: exact up to 10^6 terms, Euler–Maclaurin beyond.
[[nodiscard]] double zeta(std::uint64_t n, double theta);

// What a client worker passes to Chooser::next to draw a record.
struct Drawer {
  Rng* rng = nullptr;
  std::uint64_t records = 0;  // records that can be drawn now, acknowledged inserts included
  std::uint32_t node = 0, nodes = 1;
  std::uint64_t* sequence = nullptr;  // Distribution::sequential: the client worker's next record
};

class Chooser {
 public:
  virtual ~Chooser() = default;
  // Draws a record number in [0, drawer.records); drawer.records has to be above 0.
  [[nodiscard]] virtual std::uint64_t next(const Drawer& drawer) const = 0;
};

// `records` is the number of records when the run starts, `expected_inserts` the most that the run may add.
[[nodiscard]] Result<std::unique_ptr<Chooser>> make_chooser(const DistributionSpec& spec,
                                                            std::uint64_t records,
                                                            std::uint64_t expected_inserts);

}  // namespace loch::workloads
