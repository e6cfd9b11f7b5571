// Collects and prints the lists of `loch list`: protocols, fabrics, hardware, workloads, experiments, holes
// (known faults of published designs), mutants, probes (counted rare branches), faults.
#include "app/cli/list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/cli/bench.h"
#include "app/cli/bench_flags.h"
#include "app/cli/bench_options.h"
#include "app/cli/registry.h"
#include "common/base/probe.h"
#include "workloads/distribution.h"

#include "common/fabric/fault/fault_file.h"
#include "common/fabric/sim/hardware.h"
#include "common/measure/result.h"
#ifndef LOCH_SOURCE_DIR
#define LOCH_SOURCE_DIR "."
#endif

namespace loch::cli {
namespace {

using nlohmann::ordered_json;
namespace files = std::filesystem;

struct Entry {
  std::string name, about;
  ordered_json more = ordered_json::object();
};

std::string_view scope_name(fabric::AtomicScope scope) {
  switch (scope) {
    case fabric::AtomicScope::none:
      return "none";
    case fabric::AtomicScope::nic:
      return "nic";
    case fabric::AtomicScope::global:
      return "global";
  }
  return "none";
}

// What the protocol, with default options, needs of a device; `loch doctor --protocol` compares this with the
// device.
ordered_json needs_of(const fabric::Requirements& needs) {
  ordered_json out;
  out["rc"] = needs.rc;
  out["uc"] = needs.uc;
  out["ud"] = needs.ud;
  out["receives_rc"] = needs.receives_rc;
  out["receives_uc"] = needs.receives_uc;
  out["atomic_scope"] = scope_name(needs.atomic_scope);
  out["untorn_bytes"] = needs.untorn_bytes;
  out["in_order_placement"] = needs.in_order_placement;
  out["write_then_read"] = needs.write_then_read;
  out["write_then_atomic"] = needs.write_then_atomic;
  out["max_inline_bytes"] = needs.max_inline_bytes;
  out["max_rd_atomic"] = needs.max_rd_atomic;
  return out;
}

std::vector<Entry> protocols(const kv::Registry& registry) {
  std::vector<Entry> out;
  for (const auto& [name, module] : registry) {
    ordered_json facts = protocol_facts(*module);
    Entry entry{name, facts["about"].get<std::string>()};
    facts.erase("name");
    facts.erase("about");
    entry.more = std::move(facts);
    out.push_back(std::move(entry));
  }
  return out;
}

std::vector<Entry> fabrics() {
  return {{"sim", "a simulated cluster in virtual time; one seed decides everything"},
          {"shm", "this machine's memory: nodes are threads, or processes under mpirun"},
          {"verbs", "RDMA devices by libibverbs"},
          {"ofi", "libfabric: TCP, shared memory, and NICs that it alone drives (EFA, Slingshot)"}};
}

std::vector<Entry> hardware() {
  std::vector<Entry> out;
  for (const std::string& name : fabric::sim::list_hardware()) {
    const auto profile = fabric::sim::load_hardware(name);
    out.push_back({name, profile ? profile->description : profile.error().message});
  }
  return out;
}

// Paths, relative to the folder, of all files in it for which `accept` is true.
std::vector<std::string> files_below(const files::path& folder, bool (*accept)(const files::path&)) {
  std::vector<std::string> out;
  std::error_code failure;
  for (files::recursive_directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    if (at->is_regular_file() && accept(at->path()))
      out.push_back(files::relative(at->path(), folder).string());
  }
  std::ranges::sort(out);
  return out;
}

std::vector<Entry> workload_list() {
  std::vector<Entry> out;
  for (const std::string& name : workloads::distribution_names())
    out.push_back({name, "a distribution (--distribution)"});
  const files::path folder = files::path(home_folder()) / "workloads";
  for (const std::string& file : files_below(folder, [](const files::path& path) {
         return path.extension() == ".yaml" || path.parent_path().filename() == "ycsb";
       })) {
    out.push_back({"workloads/" + file, "a workload file (--workload)"});
  }
  return out;
}

std::vector<Entry> experiments() {
  std::vector<Entry> out;
  const files::path folder = files::path(home_folder()) / "experiments";
  for (const std::string& file : files_below(folder, [](const files::path& path) {
         return path.extension() == ".yaml" && path.parent_path().filename() != "hardware";
       })) {
    std::string title;
    try {
      title = YAML::LoadFile((folder / file).string())["title"].as<std::string>("");
    } catch (const YAML::Exception&) {
      title = "unreadable YAML";
    }
    out.push_back({"experiments/" + file, title});
  }
  return out;
}

std::string seeds_text(std::uint64_t first_seed, const std::string& found_by = {}) {
  if (first_seed == 0 && !found_by.empty()) return "found by " + found_by;
  return first_seed > 0 ? fmt::format("found by seed {}", first_seed) : std::string("not measured");
}

std::vector<Entry> holes(const kv::Registry& registry) {
  std::vector<Entry> out;
  for (const auto& [name, module] : registry) {
    for (const kv::Hole& hole : module->holes()) {
      std::string options;
      for (const auto& [key, value] : hole.options) options += fmt::format(" --set {}={}", key, value);
      Entry entry{fmt::format("{} {}", name, hole.name),
                  fmt::format("{} ({};{})", hole.what, seeds_text(hole.first_seed), options)};
      entry.more["protocol"] = name;
      entry.more["options"] = hole.options;
      if (hole.first_seed > 0) entry.more["seeds_to_find"] = hole.first_seed;
      out.push_back(std::move(entry));
    }
  }
  return out;
}

std::vector<Entry> mutants(const kv::Registry& registry) {
  std::vector<Entry> out;
  for (const auto& [name, module] : registry) {
    for (const auto& [mutant, what] : module->mutants()) {
      Entry entry{mutant,
                  fmt::format("{}: {} ({})", name, what.breaks, seeds_text(what.first_seed, what.found_by))};
      entry.more["protocol"] = name;
      entry.more["breaks"] = what.breaks;
      if (what.first_seed > 0) entry.more["seeds_to_find"] = what.first_seed;
      out.push_back(std::move(entry));
    }
  }
  return out;
}

// The names of all probes, which count how often rare branches of the code are taken. A name that several
// places in the code share is listed once.
std::vector<Entry> probes(const kv::Registry& registry) {
  std::map<std::string, std::vector<std::string>> by_name;
  for (const ProbeSite& site : probe_sites()) {
    std::vector<std::string>& protocols = by_name[site.name];
    if (!protocols.empty()) continue;
    for (const auto& [name, module] : registry) {
      const std::vector<std::string> beginnings = module->probes();
      if (std::ranges::any_of(
              beginnings, [&](const std::string& b) { return std::string_view(site.name).starts_with(b); }))
        protocols.push_back(name);
    }
  }
  std::vector<Entry> out;
  for (const auto& [name, protocols] : by_name) {
    Entry entry{name, fmt::format("{}", fmt::join(protocols, ", "))};
    entry.more["protocols"] = protocols;
    out.push_back(std::move(entry));
  }
  return out;
}

std::vector<Entry> faults() {
  std::vector<Entry> out;
  for (const fabric::FaultKey& each : fabric::fault_keys()) {
    Entry entry{each.setting.key, fmt::format("{} ({}): {}", settings::expected(each.setting),
                                              fault_fabrics(each), each.setting.help)};
    entry.more["fabrics"] = fault_fabrics(each);
    out.push_back(std::move(entry));
  }
  out.push_back({"schedule", "failures at fixed instants: docs/formats.md"});
  return out;
}

// The keys that an experiment's YAML may set, and the flags of the same meaning.
std::vector<Entry> keys(const kv::Registry& registry) {
  std::vector<Entry> out;
  for (const BenchFlag& flag : bench_flags()) {
    const settings::Setting& setting = flag.setting;
    const std::string name = experiment_key(flag);
    if (name.empty()) continue;
    Entry entry{name, fmt::format("--{} {}: {}{}", setting.key, settings::placeholder(setting),
                                  settings::meaning(setting),
                                  setting.initial.empty() ? "" : fmt::format(" ({})", setting.initial))};
    entry.more["flag"] = setting.key;
    out.push_back(std::move(entry));
  }
  for (const auto& [name, module] : registry) {
    for (const kv::OptionSpec& spec : module->options()) {
      Entry entry{spec.key, fmt::format("--{}: {} ({})", spec.key, spec.help, spec.initial)};
      entry.more["flag"] = spec.key;
      entry.more["default"] = spec.initial;
      out.push_back(std::move(entry));
    }
  }
  return out;
}

void add_fields(const ordered_json& value, const std::string& path, std::vector<Entry>* out) {
  if (!value.is_object() || value.empty()) {
    if (!path.empty()) out->push_back({path, value.is_null() ? "of some runs" : value.type_name()});
    return;
  }
  for (const auto& [key, each] : value.items())
    add_fields(each, path.empty() ? key : fmt::format("{}.{}", path, key), out);
}

// The fields of a result's JSON, by the paths with which experiments name them in claims and derived values.
// A field that only some runs have is marked as such.
std::vector<Entry> fields() {
  measure::PointResult point;
  point.nodes.emplace_back();
  std::vector<Entry> out;
  add_fields(measure::to_json(point), "", &out);
  return out;
}

// The counters that each protocol adds to a result under protocol_counters, found by running a few simulated
// operations.
std::vector<Entry> counters(const kv::Registry& registry) {
  std::vector<Entry> out;
  for (const auto& [name, module] : registry) {
    std::vector<std::string> few = {"--protocol",   name, "--nodes", "3",
                                    "--operations", "60", "--keys",  "100"};
    auto options = parse_bench(few, registry);
    // A protocol may refuse the flags in `few` because it needs a node that only serves: try again with one
    // such node.
    if (!options || !validate(*options, *module)) {
      few.insert(few.end(), {"--server-nodes", "1"});
      options = parse_bench(few, registry);
    }
    const auto run = options ? run_point(*options, *module, 0, Place{}) : std::unexpected(options.error());
    if (!run) {
      out.push_back({"(none)", fmt::format("{}: {}", name, run.error().message)});
      continue;
    }
    for (const auto& [counter, value] : run->point.protocol_counters) {
      Entry entry{fmt::format("protocol_counters.{}", counter), name};
      entry.more["protocol"] = name;
      out.push_back(std::move(entry));
    }
  }
  return out;
}

void print(const std::vector<Entry>& entries, bool as_json) {
  if (!as_json) {
    std::size_t width = 0;
    for (const Entry& entry : entries) width = std::max(width, entry.name.size());
    for (const Entry& entry : entries) fmt::print("{:<{}}  {}\n", entry.name, width, entry.about);
    return;
  }
  ordered_json out = ordered_json::array();
  for (const Entry& entry : entries) {
    ordered_json one = {{"name", entry.name}, {"about", entry.about}};
    one.update(entry.more);
    out.push_back(std::move(one));
  }
  fmt::print("{}\n", out.dump(1));
}

struct Kind {
  std::string_view name;
  std::vector<Entry> (*entries)(const kv::Registry&);
};

// Adapts a list that does not depend on the protocols to the signature of Kind::entries.
template <std::vector<Entry> (*entries)()>
std::vector<Entry> of_any(const kv::Registry&) {
  return entries();
}

constexpr std::array kinds = {Kind{"protocols", protocols},
                              Kind{"fabrics", of_any<fabrics>},
                              Kind{"hardware", of_any<hardware>},
                              Kind{"workloads", of_any<workload_list>},
                              Kind{"experiments", of_any<experiments>},
                              Kind{"mutants", mutants},
                              Kind{"holes", holes},
                              Kind{"probes", probes},
                              Kind{"faults", of_any<faults>},
                              Kind{"fields", of_any<fields>},
                              Kind{"keys", keys},
                              Kind{"counters", counters}};

}  // namespace

std::string fault_fabrics(const fabric::FaultKey& key) {
  if (!key.of_decorator) return "sim";
  return key.of_simulator ? "sim, shm, verbs, ofi" : "shm, verbs, ofi";
}

ordered_json protocol_facts(const kv::Module& module) {
  const kv::Options options(module.options());
  ordered_json out;
  out["name"] = module.name();
  out["about"] = fmt::format("{} ({})", module.summary(), module.paper());
  out["consistency"] = kv::name(module.consistency(options));
  out["default_servers"] = module.default_servers();
  const kv::DataSupport data = module.data(options);
  out["about"] = fmt::format("{}; keys: {}, values: {}", out["about"].get<std::string>(), kv::name(data.keys),
                             kv::name(data.values));
  out["keys"] = kv::name(data.keys);
  out["values"] = kv::name(data.values);
  out["multi_get"] = data.multi_get ? "concurrent GETs" : "none";
  out["insert_if_absent"] =
      fmt::format("{}{}", data.insert_if_absent.is_there ? "" : "none: ", data.insert_if_absent.how);
  out["needs"] = needs_of(module.requirements(options));
  return out;
}

std::string home_folder() {
  const char* home = std::getenv("LOCH_HOME");
  return home != nullptr && *home != '\0' ? home : LOCH_SOURCE_DIR;
}

settings::Command list_command(bool& as_json) {
  std::vector<std::string> names;
  for (const Kind& kind : kinds) names.emplace_back(kind.name);
  settings::Setting what = settings::choice("WHAT", std::move(names), "what is listed");
  what.initial.clear();
  return {.name = "list",
          .usage = {"WHAT [--json]"},
          .about = "Prints what this build has, one line each.",
          .operands = {{.setting = std::move(what)}},
          .flags = {{.setting = settings::of(settings::Type::boolean, "json", "",
                                             "as JSON, with what else is known of each"),
                     .place = &as_json}},
          .statuses = {{"0", "listed"}, {"2", "bad input"}},
          .example = "list protocols"};
}

int run_list(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  bool as_json = false;
  const settings::Command command = list_command(as_json);
  if (settings::asks_for_help(arguments)) {
    fmt::print("{}", settings::help(command));
    return 0;
  }
  const auto given = settings::parse(command, arguments);
  if (!given) return settings::refuse(command, given.error().message);
  const auto kind = std::ranges::find(kinds, given->words.front(), &Kind::name);
  print(kind->entries(registry), as_json);
  return 0;
}

}  // namespace loch::cli
