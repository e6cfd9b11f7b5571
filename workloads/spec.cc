// Reads a load's specification from flags, YAML workload files and YCSB properties, and checks it.
#include "workloads/spec.h"

#include "common/base/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <set>

#include "common/base/file.h"
#include "common/base/nearest.h"
#include "common/kv/options.h"

namespace loch::workloads {
namespace {

settings::Setting key(settings::Type type, const char* name, const char* initial, const char* help,
                      double minimum = 0, double maximum = 9e18) {
  return {.key = name,
          .type = type,
          .initial = initial,
          .help = help,
          .choices = {},
          .minimum = minimum,
          .maximum = maximum};
}

std::vector<settings::Setting> make_yaml_settings() {
  using settings::Type;
  settings::Setting distribution = key(Type::choice, "distribution", "uniform", "how keys are drawn");
  distribution.choices = distribution_names();
  settings::Setting order = key(Type::choice, "insert_order", "hashed", "YCSB's insertorder");
  order.choices = {"hashed", "ordered"};
  const auto sized = [](const char* name) {
    settings::Setting setting =
        key(Type::choice, name, "fixed", "of different sizes, of which the size is the largest");
    setting.choices = size_kind_names();
    return setting;
  };
  return {
      key(Type::text, "name", "", "what reports call it"),
      key(Type::real, "get", "0.9", "share of GETs", 0, 1),
      key(Type::real, "put", "0.1", "share of PUTs (what the other shares leave)", 0, 1),
      key(Type::real, "delete", "0", "share of DELETEs", 0, 1),
      key(Type::real, "insert", "0", "share of PUTs of new keys", 0, 1),
      key(Type::real, "read_modify_write", "0", "share of a GET and a PUT of one key", 0, 1),
      key(Type::real, "insert_if_absent", "0", "share of INSERTs, which take effect only on absent keys", 0,
          1),
      std::move(distribution),
      key(Type::real, "zipf_theta", "0.99", "skew of zipfian-n and latest", 1e-6, 10),
      key(Type::real, "hotspot_data", "0.2", "hotspot: share of the records that are hot", 0, 1),
      key(Type::real, "hotspot_operations", "0.8", "hotspot: share of the operations that go there", 0, 1),
      key(Type::real, "exponential_percentile", "95",
          "exponential: percentage of operations on that share of records", 0, 100),
      key(Type::real, "exponential_fraction", "0.8571428571", "exponential: the share of records", 0, 1),
      key(Type::real, "locality", "0.8", "locality: share of accesses to the node's own part of the keys", 0,
          1),
      key(Type::integer, "keys", "100000", "preloaded records, whole cluster", 1),
      key(Type::integer, "operations", "", "measure so many operations instead of a duration", 1),
      key(Type::size, "key_size", "128", "bytes of a key", 1, 0x7FFF'FFFF),
      key(Type::size, "value_size", "1K", "bytes of a value", 1, 0x7FFF'FFFF),
      sized("key_size_distribution"),
      key(Type::size, "key_size_min", "8", "bytes of the smallest key", 1, 1 << 30),
      key(Type::text, "key_size_pareto", "15,214.476,0.348238", "location, scale, shape"),
      key(Type::file, "key_size_histogram", "", "YCSB's file of sizes"),
      sized("value_size_distribution"),
      key(Type::size, "value_size_min", "1", "bytes of the smallest value", 1, 1 << 30),
      key(Type::text, "value_size_pareto", "15,214.476,0.348238", "location, scale, shape"),
      key(Type::file, "value_size_histogram", "", "YCSB's file of sizes"),
      key(Type::real, "rate", "0", "open loop: operations per second, whole cluster; 0: closed loop", 0,
          1e12),
      key(Type::duration, "duration", "", "measurement window", 1),
      key(Type::boolean, "verify", "false", "check every GET's value"),
      std::move(order),
  };
}

std::vector<std::string> yaml_keys() {
  std::vector<std::string> names;
  for (const settings::Setting& each : yaml_settings()) names.push_back(each.key);
  return names;
}

// One entry of a YAML mapping, with its file and line for error messages.
struct Entry {
  std::string file, key, text;
  int line = 0;

  [[nodiscard]] std::unexpected<Error> bad(std::string_view expected) const {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}:{}: {}: \"{}\" is not {}", file, line, key, text, expected));
  }
  // Parses the text as a value of the key's setting.
  template <typename T>
  [[nodiscard]] Result<T> value() const {
    const auto setting = std::ranges::find(yaml_settings(), key, &settings::Setting::key);
    LOCH_CHECK(setting != yaml_settings().end(), "{} is no key", key);
    auto parsed = settings::parse(*setting, text);
    if (!parsed) return bad(settings::expected(*setting));
    return std::get<T>(*std::move(parsed));
  }
  [[nodiscard]] Result<double> real() const { return value<double>(); }
  [[nodiscard]] Result<std::uint64_t> count() const {
    LOCH_ASSIGN(const std::int64_t number, value<std::int64_t>());
    return static_cast<std::uint64_t>(number);
  }
  [[nodiscard]] Result<std::uint32_t> bytes() const {
    LOCH_ASSIGN(const std::int64_t number, value<std::int64_t>());
    return static_cast<std::uint32_t>(number);
  }
};

struct YamlState {
  WorkloadSpec spec;
  OperationMix mix{
      .get = 0.9, .put = 0, .remove = 0, .insert = 0, .read_modify_write = 0, .insert_if_absent = 0};
  bool has_put = false, has_mix = false, has_distribution = false;
  DistributionSpec distribution;
};

Result<> apply_mix(const Entry& e, YamlState& s) {
  LOCH_ASSIGN(const double share, e.real());
  s.has_mix = true;
  if (e.key == "get")
    s.mix.get = share;
  else if (e.key == "delete")
    s.mix.remove = share;
  else if (e.key == "insert")
    s.mix.insert = share;
  else if (e.key == "read_modify_write")
    s.mix.read_modify_write = share;
  else if (e.key == "insert_if_absent")
    s.mix.insert_if_absent = share;
  else {
    s.mix.put = share;
    s.has_put = true;
  }
  return {};
}

Result<> apply_distribution(const Entry& e, YamlState& s) {
  s.has_distribution = true;
  if (e.key == "distribution") {
    const auto kind = parse_distribution(e.text, e.key);
    if (!kind) return e.bad(fmt::format("one of {}", fmt::join(distribution_names(), ", ")));
    s.distribution.kind = *kind;
    return {};
  }
  LOCH_ASSIGN(const double value, e.real());
  if (e.key == "zipf_theta")
    s.distribution.zipf_theta = value;
  else if (e.key == "hotspot_data")
    s.distribution.hotspot_data = value;
  else if (e.key == "hotspot_operations")
    s.distribution.hotspot_operations = value;
  else if (e.key == "exponential_percentile")
    s.distribution.exponential_percentile = value;
  else if (e.key == "exponential_fraction")
    s.distribution.exponential_fraction = value;
  else
    s.distribution.locality = value;
  return {};
}

// Handles the YAML keys that begin with key_size_ or value_size_.
Result<> apply_sizes(const Entry& e, YamlState& s) {
  SizeRequest& sizes = e.key.starts_with("key_") ? s.spec.key_sizes : s.spec.value_sizes;
  if (e.key.ends_with("_distribution")) {
    LOCH_ASSIGN(const std::string kind, e.value<std::string>());
    sizes.kind =
        static_cast<SizeKind>(std::ranges::find(size_kind_names(), kind) - size_kind_names().begin());
  } else if (e.key.ends_with("_min")) {
    LOCH_ASSIGN(sizes.least, e.bytes());
  } else if (e.key.ends_with("_pareto")) {
    sizes.pareto = parse_pareto(e.text);
    if (!sizes.pareto) return e.bad("three numbers: location, scale and shape, such as 15,214.476,0.348238");
  } else {
    LOCH_ASSIGN(sizes.histogram, e.value<std::string>());
  }
  return {};
}

Result<> apply_shape(const Entry& e, YamlState& s) {
  if (e.key == "keys") {
    LOCH_ASSIGN(s.spec.records, e.count());
  } else if (e.key == "operations") {
    LOCH_ASSIGN(s.spec.operations, e.count());
  } else if (e.key == "key_size") {
    LOCH_ASSIGN(s.spec.key_size, e.bytes());
  } else if (e.key == "value_size") {
    LOCH_ASSIGN(s.spec.value_size, e.bytes());
  } else if (e.key == "rate") {
    LOCH_ASSIGN(s.spec.target_rate, e.real());
  } else if (e.key == "duration") {
    LOCH_ASSIGN(s.spec.duration, e.value<std::int64_t>());
  } else if (e.key == "verify") {
    LOCH_ASSIGN(s.spec.verify, e.value<bool>());
  } else if (e.key == "insert_order") {
    LOCH_ASSIGN(const std::string order, e.value<std::string>());
    s.spec.key_order = order == "ordered" ? KeyOrder::ordered : KeyOrder::hashed;
  }
  return {};
}

Result<> apply(const Entry& e, YamlState& s) {
  constexpr std::array mix_keys = {"get", "put", "delete", "insert", "read_modify_write", "insert_if_absent"};
  constexpr std::array distribution_keys = {
      "distribution",           "zipf_theta",           "hotspot_data", "hotspot_operations",
      "exponential_percentile", "exponential_fraction", "locality"};
  if (std::ranges::find(yaml_settings(), e.key, &settings::Setting::key) == yaml_settings().end()) {
    const std::string near = nearest(e.key, yaml_keys());
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}:{}: {}: no such workload key{}", e.file, e.line, e.key,
                            near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  if (std::ranges::find(mix_keys, e.key) != mix_keys.end()) return apply_mix(e, s);
  if (std::ranges::find(distribution_keys, e.key) != distribution_keys.end()) return apply_distribution(e, s);
  if (e.key.starts_with("key_size_") || e.key.starts_with("value_size_")) return apply_sizes(e, s);
  return apply_shape(e, s);
}

bool is_yaml(const std::string& file) { return file.ends_with(".yaml") || file.ends_with(".yml"); }

}  // namespace

const std::vector<settings::Setting>& yaml_settings() {
  static const std::vector<settings::Setting> all = make_yaml_settings();
  return all;
}

void SizeRequest::override_with(const SizeRequest& other) {
  if (other.kind) *this = {.kind = other.kind};
  if (other.least) least = other.least;
  if (other.pareto) pareto = other.pareto;
  if (other.histogram) histogram = other.histogram;
}

std::optional<std::array<double, 3>> parse_pareto(std::string_view text) {
  std::array<double, 3> out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t comma = i + 1 < out.size() ? text.find(',') : text.size();
    if (comma == std::string_view::npos) return std::nullopt;
    const auto [end, error] = std::from_chars(text.data(), text.data() + comma, out[i]);
    if (error != std::errc{} || end != text.data() + comma || !std::isfinite(out[i])) return std::nullopt;
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

Result<std::shared_ptr<const Sizes>> sizes_of(const SizeRequest& request, std::uint32_t most, SizedData of,
                                              std::string_view flag) {
  const auto refuse = [](std::string what) { return fail(ErrorCode::invalid_argument, std::move(what)); };
  const SizeKind kind = request.kind.value_or(SizeKind::fixed);
  if (kind == SizeKind::fixed && (request.least || request.pareto || request.histogram))
    return refuse(fmt::format("--{0}-min, --{0}-pareto, --{0}-histogram: go with --{0}-distribution", flag));
  if (request.pareto && kind != SizeKind::pareto)
    return refuse(
        fmt::format("--{0}-pareto: goes with --{0}-distribution pareto, not {1}", flag, name(kind)));
  if (request.histogram.has_value() != (kind == SizeKind::histogram))
    return refuse(fmt::format("--{0}-histogram FILE: goes with --{0}-distribution histogram, not {1}{2}",
                              flag, name(kind), request.histogram ? "" : " alone"));
  if (kind == SizeKind::fixed) return nullptr;
  SizeSpec spec{.kind = kind, .least = request.least.value_or(1), .most = most / request.pieces};
  spec.pieces = request.pieces;
  if (request.pareto) {
    spec.location = (*request.pareto)[0];
    spec.scale = (*request.pareto)[1];
    spec.shape = (*request.pareto)[2];
  }
  spec.file = request.histogram.value_or("");
  // Keys of different sizes have at least 8 bytes, so that all records' keys are distinct.
  constexpr std::uint32_t least_key = 8;
  if (of == SizedData::key && !request.least) spec.least = std::min(least_key, spec.most);
  auto sizes = Sizes::make(spec, of);
  if (!sizes) return refuse(fmt::format("--{}-distribution {}: {}", flag, name(kind), sizes.error().message));
  return *sizes;
}

Result<> check(const OperationMix& mix) {
  const std::array shares = {
      mix.get, mix.put, mix.remove, mix.insert, mix.read_modify_write, mix.insert_if_absent};
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (const double share : shares) {
    if (!(share >= 0 && share <= 1)) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("get, delete …: the share {} is not from 0 to 1", share));
    }
  }
  if (std::abs(sum - 1) > 1e-9) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("get, delete …: the shares sum to {:g}, not 1", sum));
  }
  return {};
}

Result<WorkloadSpec> from_yaml(std::string_view text, std::string_view file) {
  YAML::Node root;
  try {
    root = YAML::Load(std::string(text));
  } catch (const YAML::Exception& error) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}:{}: not YAML: {}", file, error.mark.line + 1, error.msg));
  }
  if (!root.IsMap()) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}:1: expected a mapping of workload keys", file));
  }
  YamlState state;
  std::set<std::string> seen;
  for (const auto& item : root) {
    Entry entry{std::string(file), "", "", item.first.Mark().line + 1};
    if (!item.first.IsScalar() || !item.second.IsScalar()) {
      entry.key = item.first.IsScalar() ? item.first.Scalar() : "a key";
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}:{}: {}: expected one plain value", file, entry.line, entry.key));
    }
    entry.key = item.first.Scalar();
    std::ranges::replace(entry.key, '-', '_');
    if (!seen.insert(entry.key).second) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}:{}: {}: given twice", file, entry.line, entry.key));
    }
    entry.text = item.second.Scalar();
    LOCH_TRY(apply(entry, state));
  }
  if (state.has_mix) {
    OperationMix& mix = state.mix;
    if (!state.has_put)
      mix.put =
          std::max(0.0, 1 - mix.get - mix.remove - mix.insert - mix.read_modify_write - mix.insert_if_absent);
    if (auto ok = check(mix); !ok)
      return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", file, ok.error().message));
    state.spec.mix = mix;
  }
  if (state.has_distribution) state.spec.distribution = state.distribution;
  return state.spec;
}

Result<WorkloadSpec> load_workload(const std::vector<std::string>& files,
                                   const std::vector<std::string>& overrides) {
  if (std::ranges::any_of(files, is_yaml)) {
    if (files.size() > 1 || !overrides.empty()) {
      return fail(ErrorCode::invalid_argument,
                  "workload: a YAML workload file stands alone; flags override it, -P and -p do not");
    }
    LOCH_ASSIGN(const std::string text, read_whole(files.front(), 1 << 24));
    return from_yaml(text, files.front());
  }
  Properties properties;
  for (const std::string& file : files) {
    LOCH_ASSIGN(const std::string text, read_whole(file, 1 << 24));
    LOCH_TRY(parse_properties(text, file, properties));
  }
  for (const std::string& override_text : overrides) {
    const auto equals = override_text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(ErrorCode::invalid_argument, fmt::format("-p: \"{}\" is not key=value", override_text));
    }
    properties[override_text.substr(0, equals)] = {override_text.substr(equals + 1), "-p", 0};
  }
  return from_ycsb(properties);
}

}  // namespace loch::workloads
