// Makes the "config" object of a result: the flags' values, defaults included.
#include <algorithm>

#include "app/cli/bench.h"
#include "app/cli/bench_flags.h"

namespace loch::cli {
namespace {

nlohmann::ordered_json option_values(const kv::Options& options) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const auto& [key, value] : options.values()) {
    std::visit([&](const auto& v) { out[key] = v; }, value);
  }
  return out;
}

nlohmann::ordered_json sizes_json(const std::shared_ptr<const workloads::Sizes>& sizes) {
  if (sizes == nullptr) return nullptr;
  const workloads::SizeSpec& spec = sizes->spec();
  nlohmann::ordered_json out = {{"distribution", workloads::name(spec.kind)},
                                {"least", sizes->least()},
                                {"most", sizes->most()},
                                {"cut_share", sizes->cut_share()},
                                {"fields", spec.pieces}};
  if (spec.kind == workloads::SizeKind::pareto) out["pareto"] = {spec.location, spec.scale, spec.shape};
  if (spec.kind == workloads::SizeKind::histogram) out["histogram"] = spec.file;
  return out;
}

// Adds a flag's value to the result's configuration: bytes and counts as numbers, durations in seconds under
// a key that ends in "_s".
void record(const BenchFlag& flag, BenchOptions& o, nlohmann::ordered_json& out) {
  std::string key = flag.setting.key;
  std::ranges::replace(key, '-', '_');
  const bool is_duration = flag.setting.type == settings::Type::duration;
  if (is_duration) key += "_s";
  const auto value = stored(flag, o);
  if (!value) {
    out[key] = nullptr;
  } else if (is_duration) {
    out[key] = static_cast<double>(std::get<std::int64_t>(*value)) / 1e9;
  } else {
    std::visit([&](const auto& each) { out[key] = each; }, *value);
  }
}

}  // namespace

nlohmann::ordered_json config_json(const BenchOptions& given, std::uint64_t seed) {
  BenchOptions o = given;
  const workloads::LoadConfig& load = o.load;
  const workloads::DistributionSpec& d = load.distribution;
  nlohmann::ordered_json out;
  for (const BenchFlag& flag : bench_flags()) {
    if (flag.is_recorded) record(flag, o, out);
  }
  // Settings that are derived from several flags, or whose name in the result differs from the flag's.
  out["hardware"] = o.fabric == "sim" ? nlohmann::ordered_json(o.hardware) : nlohmann::ordered_json(nullptr);
  if (!o.hardware_set.empty()) out["hardware_set"] = o.hardware_set;
  out["key_sizes"] = sizes_json(o.key_sizes);
  out["value_sizes"] = sizes_json(o.value_sizes);
  out["kept_value_bytes"] = o.kept_value_bytes;
  out["values_elided"] = o.kept_value_bytes < o.value_size;
  out["mix"] = {{"get", load.mix.get},
                {"put", load.mix.put},
                {"delete", load.mix.remove},
                {"insert", load.mix.insert},
                {"read_modify_write", load.mix.read_modify_write}};
  if (load.mix.insert_if_absent > 0) out["mix"]["insert_if_absent"] = load.mix.insert_if_absent;
  out["distribution"] = workloads::name(d.kind);
  out["hotspot"] = {{"data", d.hotspot_data}, {"operations", d.hotspot_operations}};
  out["exponential"] = {{"percentile", d.exponential_percentile}, {"fraction", d.exponential_fraction}};
  out["workload"] = o.workload_files;
  out["insert_order"] = o.key_order == workloads::KeyOrder::hashed ? "hashed" : "ordered";
  out["arrivals"] = load.replay       ? load.replay->speed > 0 ? "trace" : "closed"
                    : load.rate == 0  ? "closed"
                    : load.fixed_gaps ? "fixed"
                                      : "poisson";
  out["seed"] = seed;
  // Only where they say something, so that other results are those of programs that did not have these flags.
  if (o.load_seed != 0) out["load_seed"] = o.load_seed;
  if (const workloads::ActiveWorkers& active = load.active; active.every > 0) {
    out["active"] = {active.least, active.most};
    out["active_every_s"] = static_cast<double>(active.every) / 1e9;
  }
  if (o.server_work > 0) out["server_work_s"] = static_cast<double>(o.server_work) / 1e9;
  if (o.full_data > 0) out["full_data_bytes"] = o.full_data;
  out["mutant"] = o.mutant;
  out["memory_bytes"] = o.memory_bytes;
  out["options"] = option_values(o.protocol_options);
  return out;
}

}  // namespace loch::cli
