// Reads YCSB's CoreWorkload properties, with the defaults of YCSB's code (not of its template file).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "workloads/spec.h"

namespace loch::workloads {
namespace {

// YCSB properties that are accepted and ignored, each with the reason. Any other unknown property is reported
// as ignored too.
struct Ignored {
  std::string_view key, reason;
};
constexpr std::array<Ignored, 8> ignored = {{
    {"measurementtype", "latencies are always kept as histograms"},
    {"measurement.interval", "open loops measure from the intended start, closed loops from the actual"},
    {"hdrhistogram.percentiles", "the result has all percentiles"},
    {"hdrhistogram.fileoutput", "the result has the histogram"},
    {"readallfields", "a record is one value"},
    {"writeallfields", "a record is one value"},
    {"insertstart", "records are numbered from 0"},
    {"insertcount", "the preload writes recordcount records"},
}};

class Reader {
 public:
  explicit Reader(const Properties& properties) : properties_(properties) {}

  [[nodiscard]] bool has(std::string_view key) const { return properties_.find(key) != properties_.end(); }

  Result<double> real(std::string_view key, double initial,
                      double most = std::numeric_limits<double>::max()) {
    const auto found = take(key);
    if (found == properties_.end()) return initial;
    const std::string text = trimmed(found->second.value);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0) || value > most) {
      return bad(*found, most == 1 ? "a number from 0 to 1" : "a number of 0 or more");
    }
    return value;
  }
  Result<std::uint64_t> whole(std::string_view key, std::uint64_t initial) {
    const auto found = take(key);
    if (found == properties_.end()) return initial;
    const std::string text = trimmed(found->second.value);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value > (std::uint64_t{1} << 62)) {
      return bad(*found, "a whole number of 0 or more");
    }
    return value;
  }
  std::string text(std::string_view key, std::string_view initial) {
    const auto found = take(key);
    return found == properties_.end() ? std::string(initial) : trimmed(found->second.value);
  }
  Result<bool> boolean(std::string_view key, bool initial) {
    const auto found = take(key);
    if (found == properties_.end()) return initial;
    const std::string text = trimmed(found->second.value);
    if (text == "true") return true;
    if (text == "false") return false;
    return bad(*found, "true or false");
  }
  [[nodiscard]] std::unexpected<Error> refuse(std::string_view key, std::string_view expected) const {
    return bad(*properties_.find(key), expected);
  }
  // One note for each property that was given but never read, and so is ignored.
  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> out;
    for (const auto& [key, property] : properties_) {
      if (std::ranges::find(taken_, key) != taken_.end()) continue;
      std::string_view reason = "no such thing here";
      for (const Ignored& each : ignored) {
        if (each.key == key) reason = each.reason;
      }
      // The note goes to a terminal and into JSON, so unprintable characters of the key are replaced.
      std::string shown = key;
      std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
      out.push_back(fmt::format("{}: ignored ({})", shown, reason));
    }
    return out;
  }

 private:
  Properties::const_iterator take(std::string_view key) {
    taken_.emplace_back(key);
    return properties_.find(key);
  }
  // Java's number parsers ignore blanks around a number, but the property reader keeps them.
  static std::string trimmed(const std::string& text) {
    const auto from = text.find_first_not_of(" \t");
    if (from == std::string::npos) return "";
    return text.substr(from, text.find_last_not_of(" \t") - from + 1);
  }
  static std::unexpected<Error> bad(const Properties::value_type& property, std::string_view expected) {
    const std::string place = property.second.line == 0
                                  ? property.second.file
                                  : fmt::format("{}:{}", property.second.file, property.second.line);
    return fail(ErrorCode::invalid_argument, fmt::format("{}: {}: \"{}\" is not {}", place, property.first,
                                                         property.second.value, expected));
  }

  const Properties& properties_;
  std::vector<std::string> taken_;
};

Result<DistributionSpec> distribution_of(Reader& in) {
  DistributionSpec spec;
  const std::string kind = in.text("requestdistribution", "uniform");
  if (kind == "uniform")
    spec.kind = Distribution::uniform;
  else if (kind == "zipfian")
    spec.kind = Distribution::zipfian;
  else if (kind == "latest")
    spec.kind = Distribution::latest;
  else if (kind == "hotspot")
    spec.kind = Distribution::hotspot;
  else if (kind == "sequential")
    spec.kind = Distribution::sequential;
  else if (kind == "exponential")
    spec.kind = Distribution::exponential;
  else
    return in.refuse("requestdistribution",
                     "one of uniform, zipfian, latest, hotspot, sequential, exponential");
  LOCH_ASSIGN(spec.hotspot_data, in.real("hotspotdatafraction", 0.2, 1));
  LOCH_ASSIGN(spec.hotspot_operations, in.real("hotspotopnfraction", 0.8, 1));
  LOCH_ASSIGN(spec.exponential_percentile, in.real("exponential.percentile", 95, 100));
  LOCH_ASSIGN(spec.exponential_fraction, in.real("exponential.frac", 0.8571428571));
  return spec;
}

Result<OperationMix> mix_of(Reader& in) {
  OperationMix mix;
  LOCH_ASSIGN(const double scan, in.real("scanproportion", 0, 1));
  if (scan > 0) {
    return fail(
        ErrorCode::unsupported,
        "scanproportion: YCSB workload E needs ordered scans, which a hash index does not have; refused");
  }
  LOCH_ASSIGN(mix.get, in.real("readproportion", 0.95, 1));
  LOCH_ASSIGN(mix.put, in.real("updateproportion", 0.05, 1));
  LOCH_ASSIGN(mix.insert, in.real("insertproportion", 0, 1));
  LOCH_ASSIGN(mix.read_modify_write, in.real("readmodifywriteproportion", 0, 1));
  // YCSB's proportions are weights and need not sum to 1.
  const double sum = mix.get + mix.put + mix.insert + mix.read_modify_write;
  if (sum <= 0)
    return fail(ErrorCode::invalid_argument, "readproportion …: no operation has a share above 0");
  mix.get /= sum;
  mix.put /= sum;
  mix.insert /= sum;
  mix.read_modify_write /= sum;
  return mix;
}

// YCSB's CoreWorkload.getFieldLengthGenerator: constant, uniform or zipfian over minfieldlength …
// fieldlength, or a histogram file, which fieldlength does not bound. A record's size is the sum of one draw
// per field.
Result<> field_lengths(Reader& in, std::uint64_t fields, std::uint64_t length, WorkloadSpec& spec) {
  const std::string kind = in.text("fieldlengthdistribution", "constant");
  LOCH_ASSIGN(const std::uint64_t least, in.whole("minfieldlength", 1));
  const std::string file = in.text("fieldlengthhistogram", "hist.txt");
  if (kind == "constant") return {};
  SizeRequest& sizes = spec.value_sizes;
  sizes.pieces = static_cast<std::uint32_t>(fields);
  if (kind == "histogram") {
    constexpr std::uint64_t largest = 1 << 30;
    sizes.kind = SizeKind::histogram;
    sizes.histogram = file;
    spec.value_size = static_cast<std::uint32_t>(std::max<std::uint64_t>(largest / fields, 1) * fields);
    return {};
  }
  if (kind != "uniform" && kind != "zipfian")
    return in.refuse("fieldlengthdistribution", "one of constant, uniform, zipfian, histogram");
  if (least > length && in.has("minfieldlength"))
    return in.refuse("minfieldlength", fmt::format("from 0 to fieldlength, {}", length));
  sizes.kind = kind == "uniform" ? SizeKind::uniform : SizeKind::zipfian;
  sizes.least = static_cast<std::uint32_t>(std::max<std::uint64_t>(std::min(least, length), 1));
  return {};
}

Result<> record_shape(Reader& in, WorkloadSpec& spec) {
  LOCH_ASSIGN(const std::uint64_t fields, in.whole("fieldcount", 10));
  LOCH_ASSIGN(const std::uint64_t length, in.whole("fieldlength", 100));
  if (fields == 0 || length == 0 || fields > 0x7FFF'FFFF / length) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("fieldcount {} times fieldlength {} is not a value size of 1 byte to 2 GB",
                            fields, length));
  }
  spec.value_size = static_cast<std::uint32_t>(fields * length);
  LOCH_TRY(field_lengths(in, fields, length, spec));
  const std::string order = in.text("insertorder", "hashed");
  if (order == "ordered")
    spec.key_order = KeyOrder::ordered;
  else if (order != "hashed")
    return in.refuse("insertorder", "hashed or ordered");
  LOCH_ASSIGN(const std::uint64_t padding, in.whole("zeropadding", 1));
  if (padding > 64) return in.refuse("zeropadding", "a number of digits from 0 to 64");
  spec.zero_padding = static_cast<std::uint32_t>(padding);
  return {};
}

}  // namespace

Result<WorkloadSpec> from_ycsb(const Properties& properties) {
  Reader in(properties);
  WorkloadSpec spec;
  const std::string workload = in.text("workload", "site.ycsb.workloads.CoreWorkload");
  if (workload != "site.ycsb.workloads.CoreWorkload" && workload != "com.yahoo.ycsb.workloads.CoreWorkload") {
    return in.refuse("workload", "site.ycsb.workloads.CoreWorkload (or its old name com.yahoo.ycsb…)");
  }
  LOCH_ASSIGN(spec.mix, mix_of(in));
  LOCH_ASSIGN(spec.distribution, distribution_of(in));
  LOCH_TRY(record_shape(in, spec));
  LOCH_ASSIGN(const std::uint64_t records, in.whole("recordcount", 0));
  LOCH_ASSIGN(const std::uint64_t operations, in.whole("operationcount", 0));
  LOCH_ASSIGN(const std::uint64_t threads, in.whole("threadcount", 1));
  LOCH_ASSIGN(const double target, in.real("target", 0));
  LOCH_ASSIGN(const std::uint64_t seconds, in.whole("maxexecutiontime", 0));
  LOCH_ASSIGN(spec.verify, in.boolean("dataintegrity", false));
  // YCSB writes 0 for "not given".
  if (records > 0) spec.records = records;
  if (operations > 0) spec.operations = operations;
  if (in.has("threadcount")) {
    if (threads == 0 || threads > 100'000)
      return in.refuse("threadcount", "a number of threads from 1 to 100000");
    spec.threads = static_cast<std::uint32_t>(threads);
  }
  if (target > 0) spec.target_rate = target;
  if (seconds > 0) {
    if (seconds > 1'000'000'000) return in.refuse("maxexecutiontime", "a number of seconds up to 10^9");
    spec.duration = static_cast<Nanos>(seconds) * 1'000'000'000;
  }
  for (std::string& note : in.notes()) spec.notes.push_back(std::move(note));
  return spec;
}

}  // namespace loch::workloads
