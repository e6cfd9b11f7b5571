#include "workloads/spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "common/kv/options.h"
#include "common/measure/file.h"

namespace loch::workloads {
namespace {

const std::vector<std::string>& yaml_keys() {
  static const std::vector<std::string> all = {"name",
                                               "get",
                                               "put",
                                               "delete",
                                               "insert",
                                               "read_modify_write",
                                               "distribution",
                                               "zipf_theta",
                                               "hotspot_data",
                                               "hotspot_operations",
                                               "exponential_percentile",
                                               "exponential_fraction",
                                               "locality",
                                               "keys",
                                               "operations",
                                               "key_size",
                                               "value_size",
                                               "rate",
                                               "duration",
                                               "verify",
                                               "insert_order"};
  return all;
}

// One entry of a YAML mapping, with its place for messages.
struct Entry {
  std::string file, key, text;
  int line = 0;

  [[nodiscard]] std::unexpected<Error> bad(std::string_view expected) const {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}:{}: {}: \"{}\" is not {}", file, line, key, text, expected));
  }
  [[nodiscard]] Result<double> real(double least, double most) const {
    try {
      const double value = YAML::Node(text).as<double>();
      if (value >= least && value <= most) return value;
    } catch (const YAML::Exception&) {
    }
    return bad(fmt::format("a number from {} to {:g}", least, most));
  }
  [[nodiscard]] Result<std::uint64_t> count() const {
    auto value = parse_size(text, key);
    if (!value) return bad("a whole number");
    return *value;
  }
  [[nodiscard]] Result<std::uint32_t> bytes() const {
    const auto value = parse_size(text, key);
    if (!value || *value == 0 || *value > 0x7FFF'FFFF) return bad("a size such as 128 or 16K");
    return static_cast<std::uint32_t>(*value);
  }
};

struct YamlState {
  WorkloadSpec spec;
  OperationMix mix{.get = 0.9, .put = 0, .remove = 0, .insert = 0, .read_modify_write = 0};
  bool has_put = false, has_mix = false, has_distribution = false;
  DistributionSpec distribution;
};

Result<> apply_mix(const Entry& e, YamlState& s) {
  LOCH_ASSIGN(const double share, e.real(0, 1));
  s.has_mix = true;
  if (e.key == "get")
    s.mix.get = share;
  else if (e.key == "delete")
    s.mix.remove = share;
  else if (e.key == "insert")
    s.mix.insert = share;
  else if (e.key == "read_modify_write")
    s.mix.read_modify_write = share;
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
  const bool is_share = e.key == "hotspot_data" || e.key == "hotspot_operations" || e.key == "locality";
  LOCH_ASSIGN(const double value, e.real(0, is_share ? 1 : 100));
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
    LOCH_ASSIGN(s.spec.target_rate, e.real(0, 1e12));
  } else if (e.key == "duration") {
    const auto value = parse_duration(e.text, e.key);
    if (!value || *value <= 0) return e.bad("a duration such as 50ms or 10s");
    s.spec.duration = *value;
  } else if (e.key == "verify") {
    if (e.text != "true" && e.text != "false") return e.bad("true or false");
    s.spec.verify = e.text == "true";
  } else if (e.key == "insert_order") {
    if (e.text != "hashed" && e.text != "ordered") return e.bad("hashed or ordered");
    s.spec.key_order = e.text == "ordered" ? KeyOrder::ordered : KeyOrder::hashed;
  }
  return {};
}

Result<> apply(const Entry& e, YamlState& s) {
  constexpr std::array mix_keys = {"get", "put", "delete", "insert", "read_modify_write"};
  constexpr std::array distribution_keys = {
      "distribution",           "zipf_theta",           "hotspot_data", "hotspot_operations",
      "exponential_percentile", "exponential_fraction", "locality"};
  if (std::ranges::find(yaml_keys(), e.key) == yaml_keys().end()) {
    const std::string near = kv::nearest(e.key, yaml_keys());
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}:{}: {}: no such workload key{}", e.file, e.line, e.key,
                            near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  if (std::ranges::find(mix_keys, e.key) != mix_keys.end()) return apply_mix(e, s);
  if (std::ranges::find(distribution_keys, e.key) != distribution_keys.end()) return apply_distribution(e, s);
  return apply_shape(e, s);
}

bool is_yaml(const std::string& file) { return file.ends_with(".yaml") || file.ends_with(".yml"); }

}  // namespace

Result<> check(const OperationMix& mix) {
  const double sum = mix.get + mix.put + mix.remove + mix.insert + mix.read_modify_write;
  for (const double share : {mix.get, mix.put, mix.remove, mix.insert, mix.read_modify_write}) {
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
      mix.put = std::max(0.0, 1 - mix.get - mix.remove - mix.insert - mix.read_modify_write);
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
    LOCH_ASSIGN(const std::string text, measure::read_whole(files.front(), 1 << 24));
    return from_yaml(text, files.front());
  }
  Properties properties;
  for (const std::string& file : files) {
    LOCH_ASSIGN(const std::string text, measure::read_whole(file, 1 << 24));
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
