// Draws record numbers by the uniform, zipfian, latest, hotspot and other distributions.
#include "workloads/distribution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/check.h"
#include "common/kv/options.h"
#include "workloads/fnv.h"

namespace loch::workloads {
namespace {

// Constants of YCSB's ScrambledZipfianGenerator: ranks are drawn from 10^10 items whatever the number of
// records, so that zeta is this constant and need not be summed.
constexpr std::uint64_t scrambled_items = 10'000'000'000ULL;
constexpr double scrambled_zeta = 26.46902820178302;
constexpr double scrambled_theta = 0.99;

class Uniform final : public Chooser {
 public:
  std::uint64_t next(const Drawer& d) const override { return d.rng->below(d.records); }
};

class ScrambledZipfian final : public Chooser {
 public:
  explicit ScrambledZipfian(std::uint64_t span) : span_(span) {}
  std::uint64_t next(const Drawer& d) const override {
    while (true) {
      const std::uint64_t record = fnv64(inner_.rank(d.rng->uniform())) % span_;
      // Draws again if the record's insert is not acknowledged yet.
      if (record < d.records) return record;
    }
  }

 private:
  Zipfian inner_{scrambled_items, scrambled_theta, scrambled_zeta};
  std::uint64_t span_;
};

// A bijection on [0, n) that scatters popularity ranks over record numbers: popular records are not
// neighbours, and no two ranks give one record. Four Feistel rounds on the smallest even number of bits that
// holds n, repeated until the image is below n.
class Scatter {
 public:
  explicit Scatter(std::uint64_t n) : n_(n) {
    while (n > (std::uint64_t{1} << (2 * half_bits_))) ++half_bits_;
  }
  [[nodiscard]] std::uint64_t operator()(std::uint64_t x) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    do {
      std::uint64_t left = x >> half_bits_, right = x & mask;
      for (std::uint64_t round = 0; round < 4; ++round) {
        const std::uint64_t mixed = left ^ (mix64(right ^ round << 60) & mask);
        left = right;
        right = mixed;
      }
      x = left << half_bits_ | right;
    } while (x >= n_);
    return x;
  }

 private:
  std::uint64_t n_;
  int half_bits_ = 1;
};

class ZipfianN final : public Chooser {
 public:
  ZipfianN(std::uint64_t records, std::uint64_t items, double theta)
      : records_(records), zipfian_(items, theta), scatter_(records) {}
  std::uint64_t next(const Drawer& d) const override {
    const std::uint64_t rank = zipfian_.rank(d.rng->uniform());
    return scatter_(rank < records_ ? rank : rank % records_);
  }

 private:
  std::uint64_t records_;
  Zipfian zipfian_;
  Scatter scatter_;
};

// YCSB's latest distribution: record = newest acknowledged record − zipfian(n = acknowledged records). While
// n grows, zeta is the sum at the run's start plus an integral that approximates the terms added since.
class Latest final : public Chooser {
 public:
  Latest(std::uint64_t records, double theta) : records_(records), theta_(theta), zipfian_(records, theta) {}
  std::uint64_t next(const Drawer& d) const override {
    const double u = d.rng->uniform();
    if (d.records <= records_) return d.records - 1 - zipfian_.rank(u) % d.records;
    const double a = static_cast<double>(records_) + 0.5, b = static_cast<double>(d.records) + 0.5;
    const double more = std::abs(1 - theta_) < 1e-9
                            ? std::log(b / a)
                            : (std::pow(b, 1 - theta_) - std::pow(a, 1 - theta_)) / (1 - theta_);
    const Zipfian grown(d.records, theta_, zipfian_.zeta() + more);
    return d.records - 1 - grown.rank(u);
  }

 private:
  std::uint64_t records_;
  double theta_;
  Zipfian zipfian_;
};

class Hotspot final : public Chooser {
 public:
  Hotspot(double data, double operations) : data_(data), operations_(operations) {}
  std::uint64_t next(const Drawer& d) const override {
    const auto hot = static_cast<std::uint64_t>(static_cast<double>(d.records) * data_);
    const bool is_hot = d.rng->chance(operations_);
    if (hot == 0 || hot >= d.records) return d.rng->below(d.records);
    return is_hot ? d.rng->below(hot) : hot + d.rng->below(d.records - hot);
  }

 private:
  double data_, operations_;
};

// YCSB's exponential distribution: the distance from the newest record is exponential with gamma = −ln(1 −
// percentile/100) / (records · fraction); a draw before the first record is repeated.
class Exponential final : public Chooser {
 public:
  Exponential(double percentile, double fraction) : gain_(-std::log(1 - percentile / 100) / fraction) {}
  std::uint64_t next(const Drawer& d) const override {
    const double mean = static_cast<double>(d.records) / gain_;
    while (true) {
      const double back = d.rng->exponential(mean);
      if (back < static_cast<double>(d.records)) return d.records - 1 - static_cast<std::uint64_t>(back);
    }
  }

 private:
  double gain_;
};

class Sequential final : public Chooser {
 public:
  std::uint64_t next(const Drawer& d) const override { return (*d.sequence)++ % d.records; }
};

class Locality final : public Chooser {
 public:
  explicit Locality(double share) : share_(share) {}
  std::uint64_t next(const Drawer& d) const override {
    const bool is_own = d.rng->chance(share_);
    if (!is_own || d.node >= d.records) return d.rng->below(d.records);
    // Number of records that belong to this node: the records node, node + nodes, node + 2 · nodes, …
    const std::uint64_t own = (d.records - d.node + d.nodes - 1) / d.nodes;
    return d.node + d.rng->below(own) * d.nodes;
  }

 private:
  double share_;
};

constexpr std::array<std::pair<Distribution, std::string_view>, 8> names = {{
    {Distribution::uniform, "uniform"},
    {Distribution::zipfian, "zipfian"},
    {Distribution::zipfian_n, "zipfian-n"},
    {Distribution::latest, "latest"},
    {Distribution::hotspot, "hotspot"},
    {Distribution::exponential, "exponential"},
    {Distribution::sequential, "sequential"},
    {Distribution::locality, "locality"},
}};

}  // namespace

std::string_view name(Distribution distribution) {
  for (const auto& [value, text] : names) {
    if (value == distribution) return text;
  }
  return "?";
}

const std::vector<std::string>& distribution_names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (const auto& each : names) out.emplace_back(each.second);
    return out;
  }();
  return all;
}

Result<Distribution> parse_distribution(std::string_view text, std::string_view what) {
  for (const auto& [value, spelled] : names) {
    if (spelled == text) return value;
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}: \"{}\" is not one of {}", what, text, fmt::join(distribution_names(), ", ")));
}

namespace {
double sum_of_powers(std::uint64_t n, double theta) {
  constexpr std::uint64_t exact_terms = 1'000'000;
  double sum = 0;
  const std::uint64_t terms = std::min(n, exact_terms);
  // Adding the smallest terms first keeps the sum's rounding error small.
  for (std::uint64_t i = terms; i >= 1; --i) sum += std::pow(static_cast<double>(i), -theta);
  if (n <= exact_terms) return sum;
  const auto a = static_cast<double>(exact_terms), b = static_cast<double>(n);
  const auto f = [&](double x) { return std::pow(x, -theta); };
  const double integral = std::abs(1 - theta) < 1e-9
                              ? std::log(b / a)
                              : (std::pow(b, 1 - theta) - std::pow(a, 1 - theta)) / (1 - theta);
  const double slope = -theta * (f(b) / b - f(a) / a);
  return sum + integral + (f(b) - f(a)) / 2 + slope / 12;
}
}  // namespace

// A run asks for the same sum when its flags are checked and when its load begins. Computing it takes longer
// than the preload of a small store, so the last result is kept.
double zeta(std::uint64_t n, double theta) {
  struct Known {
    std::uint64_t n = 0;
    double theta = 0, sum = 0;
  };
  thread_local Known known;
  if (known.n != n || known.theta != theta) known = {n, theta, sum_of_powers(n, theta)};
  return known.sum;
}

Zipfian::Zipfian(std::uint64_t items, double theta)
    : Zipfian(items, theta, loch::workloads::zeta(items, theta)) {}

// The formula has a pole at theta = 1, so a theta near 1 is replaced by 1 - 10^-6, which no sample can tell
// from 1.
Zipfian::Zipfian(std::uint64_t items, double theta, double zeta_n)
    : items_(items), theta_(std::abs(1 - theta) < 1e-6 ? 1 - 1e-6 : theta), zeta_n_(zeta_n) {
  LOCH_CHECK(items > 0 && theta > 0, "{} items, theta {}", items, theta);
  const double n = static_cast<double>(items);
  alpha_ = 1 / (1 - theta_);
  second_ = std::pow(0.5, theta_);
  eta_ = (1 - std::pow(2 / n, 1 - theta_)) / (1 - (1 + second_) / zeta_n_);
}

std::uint64_t Zipfian::rank(double u) const {
  const double scaled = u * zeta_n_;
  if (scaled < 1 || items_ == 1) return 0;
  if (scaled < 1 + second_ || items_ == 2) return 1;
  const double drawn = static_cast<double>(items_) * std::pow(eta_ * u - eta_ + 1, alpha_);
  return drawn <= 0 ? 0 : std::min(static_cast<std::uint64_t>(drawn), items_ - 1);
}

double Zipfian::below(std::uint64_t k) const {
  if (k == 0) return 0;
  if (k >= items_) return 1;
  if (k == 1) return 1 / zeta_n_;
  const double two = (1 + second_) / zeta_n_;
  if (k == 2) return two;
  const double u =
      (std::pow(static_cast<double>(k) / static_cast<double>(items_), 1 - theta_) - 1 + eta_) / eta_;
  return std::max(two, u);
}

Result<std::unique_ptr<Chooser>> make_chooser(const DistributionSpec& spec, std::uint64_t records,
                                              std::uint64_t expected_inserts) {
  if (records == 0)
    return fail(ErrorCode::invalid_argument, "keys: at least one record is needed to draw from");
  const auto share = [](double value) { return value >= 0 && value <= 1; };
  const bool uses_theta = spec.kind == Distribution::zipfian_n || spec.kind == Distribution::latest;
  if (uses_theta && !(spec.zipf_theta > 0 && spec.zipf_theta <= 10)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("zipf-theta: {} is not above 0 and at most 10", spec.zipf_theta));
  }
  if (spec.kind == Distribution::zipfian && spec.zipf_theta != scrambled_theta) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("zipf-theta: {}: YCSB's zipfian is fixed at {}; use --distribution zipfian-n",
                            spec.zipf_theta, scrambled_theta));
  }
  if (spec.zipf_items > 0 && (spec.kind != Distribution::zipfian_n || spec.zipf_items < records)) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("zipf-items: {}: expected at least as many as keys, {}, and --distribution zipfian-n",
                    spec.zipf_items, records));
  }
  switch (spec.kind) {
    case Distribution::uniform:
      return std::make_unique<Uniform>();
    case Distribution::zipfian:
      return std::make_unique<ScrambledZipfian>(records + expected_inserts);
    case Distribution::zipfian_n:
      return std::make_unique<ZipfianN>(records, std::max(records, spec.zipf_items), spec.zipf_theta);
    case Distribution::latest:
      return std::make_unique<Latest>(records, spec.zipf_theta);
    case Distribution::hotspot:
      if (!share(spec.hotspot_data) || !share(spec.hotspot_operations)) {
        return fail(ErrorCode::invalid_argument, "hotspot: the fractions are from 0 to 1");
      }
      return std::make_unique<Hotspot>(spec.hotspot_data, spec.hotspot_operations);
    case Distribution::exponential:
      if (!(spec.exponential_percentile > 0 && spec.exponential_percentile < 100 &&
            spec.exponential_fraction > 0)) {
        return fail(ErrorCode::invalid_argument,
                    "exponential: percentile above 0 and below 100, fraction above 0");
      }
      return std::make_unique<Exponential>(spec.exponential_percentile, spec.exponential_fraction);
    case Distribution::sequential:
      return std::make_unique<Sequential>();
    case Distribution::locality:
      if (!share(spec.locality)) return fail(ErrorCode::invalid_argument, "locality: a share from 0 to 1");
      return std::make_unique<Locality>(spec.locality);
  }
  return fail(ErrorCode::internal, "unknown distribution");
}

}  // namespace loch::workloads
