// Draws sizes of keys and values from closed-form inverses of published distribution functions, and from
// tables.
#include "workloads/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "common/base/file.h"
#include "common/base/rng.h"
#include "workloads/distribution.h"

namespace loch::workloads {
namespace {

constexpr std::array<std::string_view, 7> kind_names = {"fixed",     "uniform", "zipfian", "pareto",
                                                        "histogram", "etc",     "usr"};

// Atikoglu et al. 2012, section 5 ("Statistical modeling"): ETC's key sizes in bytes are a generalised
// extreme value distribution with location mu, scale sigma and shape k.
constexpr double etc_key_location = 30.7984, etc_key_scale = 8.20449, etc_key_shape = 0.078688;
// Atikoglu et al. 2012, section 5: ETC's value sizes above 14 bytes follow a generalised Pareto distribution,
// and table 5 has the shares of 0 to 14 bytes. The paper gives the Pareto part's location as 0; here it is
// 15, as in mutilate, because the sizes of the table would otherwise be drawn twice.
constexpr double etc_value_location = 15, etc_value_scale = 214.476, etc_value_shape = 0.348238;
constexpr std::array<double, 15> etc_small_values = {0.00536, 0.00047, 0.17820, 0.09239, 0.00018,
                                                     0.02740, 0.00065, 0.00606, 0.00023, 0.00837,
                                                     0.00837, 0.08989, 0.00092, 0.00326, 0.01980};
// Atikoglu et al. 2012, section 3: USR has keys of 16 and of 21 bytes, and "virtually" all values have 2
// bytes. The paper gives the shares of the two key sizes only in a figure: here each has one half.
constexpr std::uint32_t usr_short_key = 16, usr_long_key = 21, usr_value = 2;

constexpr double pareto(double u, double location, double scale, double shape) {
  if (shape == 0) return location - scale * std::log1p(-u);
  return location + scale * std::expm1(-shape * std::log1p(-u)) / shape;
}

// Probability that a generalised Pareto variable exceeds x.
double pareto_above(double x, double location, double scale, double shape) {
  if (x < location) return 1;
  const double z = (x - location) / scale;
  if (shape == 0) return std::exp(-z);
  return 1 + shape * z <= 0 ? 0 : std::pow(1 + shape * z, -1 / shape);
}

double extreme_value(double u, double location, double scale, double shape) {
  return location + scale * (std::pow(-std::log(u), -shape) - 1) / shape;
}

double extreme_value_above(double x, double location, double scale, double shape) {
  const double t = 1 + shape * (x - location) / scale;
  return t <= 0 ? 1 : -std::expm1(-std::pow(t, -1 / shape));
}

// Maps the upper 53 bits of a random word to a double in (0, 1).
double unit(std::uint64_t word) { return (static_cast<double>(word >> 11) + 0.5) * 0x1.0p-53; }

std::unexpected<Error> bad_line(std::string_view file, std::size_t line, std::string_view expected) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}:{}: expected {}", file, line, expected));
}

// Parses "A<tab>B" as two whole numbers. Blanks around the numbers are ignored, as by Java's parser of
// trimmed text.
bool two_numbers(std::string_view line, std::uint64_t& first, std::uint64_t& second) {
  const auto number = [](std::string_view text, std::uint64_t& into) {
    while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
    return error == std::errc{} && end == text.data() + text.size();
  };
  const std::size_t tab = line.find('\t');
  return tab != std::string_view::npos && number(line.substr(0, tab), first) &&
         number(line.substr(tab + 1), second);
}

std::vector<std::pair<double, std::uint32_t>> cumulative(const SizeHistogram& histogram) {
  double total = 0, sum = 0;
  for (const std::uint64_t count : histogram.counts) total += static_cast<double>(count);
  std::vector<std::pair<double, std::uint32_t>> steps;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    if (histogram.counts[i] == 0) continue;
    sum += static_cast<double>(histogram.counts[i]);
    steps.emplace_back(sum / total, static_cast<std::uint32_t>(i + 1) * histogram.block);
  }
  return steps;
}

}  // namespace

std::string_view name(SizeKind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

const std::vector<std::string>& size_kind_names() {
  static const std::vector<std::string> all(kind_names.begin(), kind_names.end());
  return all;
}

Result<SizeHistogram> parse_size_histogram(std::string_view text, std::string_view file) {
  constexpr std::uint64_t rows_max = 1 << 20, bytes_max = 1 << 30;
  SizeHistogram out;
  std::size_t number = 0;
  bool has_count = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    std::uint64_t first = 0, second = 0;
    if (number == 1) {
      constexpr std::string_view head = "BlockSize\t";
      if (!line.starts_with(head) ||
          !two_numbers(fmt::format("0\t{}", line.substr(head.size())), first, second) || second == 0 ||
          second > bytes_max)
        return bad_line(file, number, "\"BlockSize\", a tab and a number of bytes from 1 to 1G");
      out.block = static_cast<std::uint32_t>(second);
      continue;
    }
    if (line.empty() || line == "\r") continue;
    if (!two_numbers(line, first, second) || first >= rows_max || second > (std::uint64_t{1} << 53) ||
        (first + 1) * out.block > bytes_max)
      return bad_line(file, number, "a bucket's number, a tab and a count, for sizes of up to 1G");
    if (out.counts.size() <= first) out.counts.resize(first + 1);
    out.counts[first] += second;
    has_count = has_count || second > 0;
  }
  if (!has_count) return bad_line(file, std::max<std::size_t>(number, 1), "a bucket with a count above 0");
  return out;
}

Result<std::shared_ptr<const Sizes>> Sizes::make(const SizeSpec& spec, SizedData of) {
  const auto refuse = [](std::string what) { return fail(ErrorCode::invalid_argument, std::move(what)); };
  if (spec.most == 0) return refuse("0 bytes; expected at least 1");
  if (spec.least == 0 || spec.least > spec.most)
    return refuse(fmt::format("the least size, {}, is not from 1 to the largest, {}", spec.least, spec.most));
  if (spec.pieces == 0 || std::uint64_t{spec.pieces} * spec.most > (1U << 30))
    return refuse(fmt::format("{} fields of up to {} bytes are not 1 byte to 1G", spec.pieces, spec.most));
  if (spec.kind == SizeKind::pareto &&
      !(spec.location >= 0 && spec.scale > 0 && spec.shape >= 0 && spec.shape <= 10))
    return refuse(
        fmt::format("pareto of location {:g}, scale {:g} and shape {:g}; expected 0 or more, above 0, "
                    "and 0 to 10",
                    spec.location, spec.scale, spec.shape));
  std::shared_ptr<Sizes> sizes(new Sizes(spec, of));
  std::uint32_t least = spec.least, most = spec.most;
  const auto steps = [&](std::vector<std::pair<double, std::uint32_t>> all) {
    sizes->steps_ = std::move(all);
    double below = 0;
    for (const auto& [sum, bytes] : sizes->steps_)
      if (bytes <= spec.most) below = sum;
    sizes->cut_share_ = 1 - below;
    const auto bounded = [&](std::uint32_t bytes) { return std::clamp(bytes, spec.least, spec.most); };
    least = bounded(sizes->steps_.front().second);
    most = bounded(sizes->steps_.back().second);
  };
  switch (spec.kind) {
    case SizeKind::fixed:
      least = spec.most;
      break;
    case SizeKind::uniform:
      break;
    case SizeKind::zipfian:
      sizes->zipfian_ = std::make_shared<Zipfian>(std::uint64_t{spec.most} - spec.least + 1, 0.99);
      break;
    case SizeKind::pareto:
      sizes->cut_share_ = pareto_above(spec.most + 1.0, spec.location, spec.scale, spec.shape);
      break;
    case SizeKind::histogram: {
      LOCH_ASSIGN(const std::string text, read_whole(spec.file, 1 << 24));
      LOCH_ASSIGN(const SizeHistogram histogram, parse_size_histogram(text, spec.file));
      steps(cumulative(histogram));
      break;
    }
    case SizeKind::etc: {
      double table = 0;
      for (const double share : etc_small_values) table += share;
      sizes->cut_share_ =
          of == SizedData::key
              ? extreme_value_above(spec.most + 1.0, etc_key_location, etc_key_scale, etc_key_shape)
              : (1 - table) *
                    pareto_above(spec.most + 1.0, etc_value_location, etc_value_scale, etc_value_shape);
      break;
    }
    case SizeKind::usr:
      if (of == SizedData::key)
        steps({{0.5, usr_short_key}, {1.0, usr_long_key}});
      else
        steps({{1.0, usr_value}});
      break;
  }
  sizes->least_ = least * spec.pieces;
  sizes->most_ = most * spec.pieces;
  return sizes;
}

double Sizes::quantile(double u) const {
  switch (spec_.kind) {
    case SizeKind::fixed:
      return spec_.most;
    case SizeKind::uniform:
      return spec_.least + u * (static_cast<double>(spec_.most) - spec_.least + 1);
    case SizeKind::zipfian:
      return spec_.least + static_cast<double>(zipfian_->rank(u));
    case SizeKind::pareto:
      return pareto(u, spec_.location, spec_.scale, spec_.shape);
    case SizeKind::histogram:
    case SizeKind::usr: {
      const auto found = std::ranges::upper_bound(steps_, u, {}, [](const auto& step) { return step.first; });
      return found == steps_.end() ? steps_.back().second : found->second;
    }
    case SizeKind::etc:
      if (of_ == SizedData::key) return extreme_value(u, etc_key_location, etc_key_scale, etc_key_shape);
      double below = 0;
      for (std::size_t bytes = 0; bytes < etc_small_values.size(); ++bytes) {
        if (u < below + etc_small_values[bytes]) return static_cast<double>(bytes);
        below += etc_small_values[bytes];
      }
      return pareto((u - below) / (1 - below), etc_value_location, etc_value_scale, etc_value_shape);
  }
  return spec_.most;
}

std::uint32_t Sizes::draw(std::uint64_t word) const {
  const double bytes = quantile(unit(word));
  if (!(bytes < spec_.most)) return spec_.most;
  return bytes < spec_.least ? spec_.least : static_cast<std::uint32_t>(bytes);
}

std::uint32_t Sizes::of(std::uint64_t word) const {
  if (is_fixed()) return most_;
  if (spec_.pieces == 1) return draw(word);
  std::uint32_t sum = 0;
  for (std::uint32_t piece = 0; piece < spec_.pieces; ++piece) sum += draw(mix64(word + piece));
  return sum;
}

}  // namespace loch::workloads
