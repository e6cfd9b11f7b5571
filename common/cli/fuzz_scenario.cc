#include "common/cli/fuzz_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace loch::cli {
namespace {

using fabric::sim::SimFaults;

// A kind of run, made for a kind of bug.
struct Profile {
  const char* name;
  std::uint64_t keys_least, keys_most;
  double get, remove;        // shares; the rest are PUTs
  std::uint32_t operations;  // a client slot; laggards: the load has a duration
  // none: only the order of things varies; laggards: some clients take a long step for every short one
  // of the others.
  enum class Faults : std::uint8_t { none, swarm, stalls, laggards } faults;
  std::uint32_t weight = 1;  // how often it is drawn, beside the others
  // What the table is like. recycling: expiry periods shorter than a laggard's operation, hardly a
  // spare entry; overfull: more keys are put than it has slots, and one or two are never written.
  // seesaw: a slot or two are free; keys that are never written move between their slots to make room
  // for others that come and go, while clients that are slow look for them.
  enum class Table : std::uint8_t { any, recycling, overfull, seesaw } table = Table::any;
};
constexpr std::array<Profile, 9> profiles = {{
    // Many clients on one or two keys: conflicts between writers of the same key.
    {"hot", 1, 2, 0.4, 0.15, 30, Profile::Faults::swarm},
    // A few keys in a table with hardly more slots: entries are in each other's way and are moved.
    {"collide", 3, 6, 0.45, 0.2, 30, Profile::Faults::swarm},
    // Slots become free and are taken all the time, so that entries of a key appear at other ranks.
    {"churn", 3, 5, 0.25, 0.35, 40, Profile::Faults::swarm},
    // As churn without any fault: fine interleavings alone.
    {"calm", 2, 5, 0.4, 0.3, 40, Profile::Faults::none},
    // Readers against movers.
    {"watch", 2, 4, 0.7, 0.15, 40, Profile::Faults::none},
    // Clients that stop for long in the middle of an operation, while the others turn the table over:
    // what was checked before is old, what was unlinked is in use again.
    {"stall", 2, 4, 0.5, 0.2, 80, Profile::Faults::stalls},
    // Between two steps of a laggard the others move a key away and back: what looks unchanged has
    // changed twice (H2). Only a key that nobody deletes meanwhile shows it.
    {"shuffle", 3, 4, 0.35, 0.22, 0, Profile::Faults::laggards, 2, Profile::Table::overfull},
    // The same, and nothing else: no client is slow but those who read the keys that are moved (H2).
    {"seesaw", 2, 3, 0.5, 0.2, 0, Profile::Faults::laggards, 2, Profile::Table::seesaw},
    // Between two steps of a laggard the entry that it is about to look at expires and is written anew.
    {"reuse", 1, 2, 0.55, 0.05, 0, Profile::Faults::laggards, 2, Profile::Table::recycling},
}};

const Profile& draw_profile(Rng& rng) {
  std::uint64_t all = 0;
  for (const Profile& each : profiles) all += each.weight;
  std::uint64_t at = rng.below(all);
  for (const Profile& each : profiles) {
    if (at < each.weight) return each;
    at -= each.weight;
  }
  return profiles.back();
}

// What may be drawn for an option, if the protocol has it and the caller did not fix it. Each is
// something that the protocol says it stays correct under.
struct Knob {
  const char* key;
  double chance;  // that the default is left
  std::vector<std::string> values;
  const char* needs_key = nullptr;    // only where this choice …
  const char* needs_value = nullptr;  // … has this value
};
// What a profile draws before the others, for its table.
const std::vector<Knob>& knobs_of(Profile::Table table) {
  static const std::vector<Knob> any,
      recycling =
          {
              {"nessie.min-spare", 0, {"2", "4", "8"}},
              {"nessie.expiry", 0, {"60us", "100us", "200us"}},
              {"nessie.recycle-interval", 0.3, {"10us", "30us"}},
              {"nessie.backoff-cap", 0, {"100us"}},
              {"nessie.cache", 0, {"false", "false", "true"}},
              // Marked at once. A stale word says "committed" of an entry that is under way again, whose key
              // others meanwhile read by its previous version.
              {"nessie.stamping", 0.1, {"eager"}},
              {"nessie.commit", 0.3, {"cas"}, "nessie.variant", "hardened"},
              {"nessie.previous-versions", 0.1, {"true"}},
              {"nessie.fast-update", 0.3, {"false"}},
          },
      overfull =
          {
              // Movers as quick as can be, and never out of entries.
              {"nessie.min-spare", 0, {"4096"}},
              {"nessie.expiry", 0, {"1s"}},
              {"nessie.fast-update", 0.1, {"true"}, "nessie.variant", "hardened"},
              {"nessie.single-cas-delete", 0.1, {"true"}, "nessie.variant", "hardened"},
          },
      seesaw = {
          // Every GET walks over the slots, and starts again soon if it met a move.
          {"nessie.min-spare", 0, {"1024"}},
          {"nessie.expiry", 0, {"1s"}},
          {"nessie.backoff-cap", 0, {"10us"}},
          {"nessie.cache", 0, {"false"}},
          {"nessie.previous-versions", 0, {"false"}},
          {"nessie.multi-read", 0, {"off"}},
          {"nessie.single-cas-delete", 0.1, {"true"}, "nessie.variant", "hardened"},
      };
  switch (table) {
    case Profile::Table::any:
      break;
    case Profile::Table::recycling:
      return recycling;
    case Profile::Table::overfull:
      return overfull;
    case Profile::Table::seesaw:
      return seesaw;
  }
  return any;
}
const std::vector<Knob>& knobs() {
  static const std::vector<Knob> all = {
      {"nessie.min-spare", 0, {"256", "1024"}},
      {"nessie.filter-bits", 0.5, {"0", "1", "3"}},
      {"nessie.cache", 0.5, {"true", "false"}},
      {"nessie.cache-fraction", 0.3, {"0.3", "1"}},
      {"nessie.previous-versions", 0.6, {"false"}},
      {"nessie.multi-read", 0.3, {"on", "off"}},
      {"nessie.completion", 0.5, {"cqe"}},
      {"nessie.stamping", 0.5, {"eager"}},
      {"nessie.expiry", 0.2, {"300us", "1ms", "5ms", "20ms"}},
      {"nessie.commit", 0.5, {"cas"}, "nessie.variant", "hardened"},
      {"nessie.fast-update", 0.5, {"true"}, "nessie.variant", "hardened"},
      {"nessie.single-cas-delete", 0.5, {"true"}, "nessie.variant", "hardened"},
      {"nessie.backoff-cap", 0.5, {"10us", "100us"}},
  };
  return all;
}

std::uint64_t between(Rng& rng, std::uint64_t least, std::uint64_t most) {
  return least + rng.below(most - least + 1);
}

template <typename T>
const T& pick(Rng& rng, const std::vector<T>& from) {
  return from[rng.below(from.size())];
}

// Delays between any two steps of a client, so that clients interleave at every step.
void add_timing(Rng& rng, SimFaults& faults) {
  faults.jitter = static_cast<Nanos>(pick<std::uint64_t>(rng, {100, 1'000, 5'000, 20'000}));
  faults.slow_dma = pick<double>(rng, {0, 0.02, 0.1, 0.3});
  faults.slow_dma_span = static_cast<Nanos>(pick<std::uint64_t>(rng, {2'000, 10'000, 40'000}));
}

// "nessie" of a protocol that has the option nessie.load-factor: a cuckoo table, which may be given more
// keys than it has slots. Empty for the others.
std::string table_of(const kv::Module& module) {
  constexpr std::string_view option = ".load-factor";
  for (const kv::OptionSpec& spec : module.options()) {
    if (spec.key.ends_with(option)) return spec.key.substr(0, spec.key.size() - option.size());
  }
  return {};
}
// Pilaf's tables grow: how many slots they begin with is Pilaf's own to draw.
bool has_growing_table(const kv::Module& module) {
  return std::ranges::any_of(module.options(),
                             [](const kv::OptionSpec& spec) { return spec.key == "pilaf.initial-slots"; });
}
bool has_cuckoo_table(const kv::Module& module) {
  return !table_of(module).empty() || has_growing_table(module);
}

// The knobs are named as Nessie's options; a table that has one of the same name has the same knob.
std::string knob_of(const std::string& table, std::string_view key) {
  constexpr std::string_view prefix = "nessie.";
  if (table.empty() || !key.starts_with(prefix)) return std::string(key);
  return table + "." + std::string(key.substr(prefix.size()));
}

// Who reads and who writes: one writer a node is enough to keep the keys on the move.
void draw_seesaw(Rng& rng, FuzzScenario& s) {
  kv::DeployConfig& d = s.plan.deploy;
  d.nodes = rng.chance(0.75) ? 3 : 2;
  d.keys = d.max_keys = d.nodes == 3 ? 2 : 3;
  d.client_workers = static_cast<std::uint32_t>(between(rng, 4, 6));
  d.window = 1;
  s.plan.records = {d.keys, d.keys + between(rng, 3, 5), d.key_size, d.value_size};
  s.sim.nodes = d.nodes;
  workloads::LoadConfig& load = s.plan.load;
  load.mix = {.get = 0, .put = 0.05, .remove = 0.75, .insert = 0.2, .read_modify_write = 0};
  load.duration = static_cast<Nanos>(between(rng, 1'500'000, 3'000'000));
  load.read_only = d.keys;
  load.readers = d.client_workers - 1;
}

void draw_shape(Rng& rng, const Profile& profile, const kv::Module& module, FuzzScenario& s) {
  kv::DeployConfig& d = s.plan.deploy;
  d.nodes = static_cast<std::uint32_t>(between(rng, 2, 4));
  d.client_workers = static_cast<std::uint32_t>(between(rng, 1, 3));
  d.window = rng.chance(0.8) ? 1 : 2;
  d.key_size = pick<std::uint32_t>(rng, {16, 24, 32});
  d.value_size = pick<std::uint32_t>(rng, {16, 40, 200});
  d.kept_value_bytes = d.value_size;
  d.keys = d.max_keys = between(rng, profile.keys_least, profile.keys_most);
  d.memory_bytes = std::uint64_t{1} << 26;
  const bool is_overfull = profile.table == Profile::Table::overfull && has_cuckoo_table(module);
  const std::uint64_t surplus = is_overfull ? between(rng, 2, 6) : 0;
  s.plan.records = {d.keys, d.keys + surplus, d.key_size, d.value_size};
  s.sim.nodes = d.nodes;
  s.keeps_memory_in_order = rng.chance(0.5);

  workloads::LoadConfig& load = s.plan.load;
  const double insert = is_overfull ? 0.1 : 0;
  load.mix = {.get = profile.get,
              .put = 1 - profile.get - profile.remove - insert,
              .remove = profile.remove,
              .insert = insert,
              .read_modify_write = 0};
  load.operations = std::uint64_t{d.nodes} * d.client_workers * d.window * profile.operations;
  if (load.operations == 0) load.duration = static_cast<Nanos>(between(rng, 2'000'000, 5'000'000));
  load.read_only = is_overfull ? between(rng, 1, 2) : 0;
  load.final_sweep = true;
  if (profile.table == Profile::Table::seesaw && has_cuckoo_table(module)) draw_seesaw(rng, s);
}

// Where workers own the table in parts, one of them owns all of it in some runs: then its keys are in each
// other's way, and its clients wait for it.
void draw_servers(Rng& rng, const Profile& profile, const kv::Module& module, FuzzScenario& s) {
  const std::uint32_t most = module.default_servers();
  if (most == 0) return;
  s.plan.deploy.server_workers = static_cast<std::uint32_t>(between(rng, 1, most));
  const bool is_tight = profile.table == Profile::Table::overfull || profile.table == Profile::Table::seesaw;
  const bool is_one = rng.chance(is_tight ? 0.9 : 0.5);
  if (!is_one || table_of(module).empty()) return;
  s.plan.deploy.server_workers = s.plan.deploy.server_nodes = 1;
}

void draw_stalls(Rng& rng, SimFaults& faults) {
  faults.pause_rate = pick<double>(rng, {1'000, 4'000, 16'000});
  faults.outage_span = static_cast<Nanos>(pick<std::uint64_t>(rng, {100'000, 500'000, 2'000'000}));
}

void draw_laggards(Rng& rng, const Profile& profile, SimFaults& faults) {
  const bool is_overfull = profile.table == Profile::Table::overfull;
  faults.laggards = pick<double>(rng, {0.25, 0.5, 0.75});
  const std::vector<std::uint64_t> lags = is_overfull
                                              ? std::vector<std::uint64_t>{60'000, 120'000, 300'000, 800'000}
                                              : std::vector<std::uint64_t>{150'000, 400'000, 800'000};
  faults.lag = static_cast<Nanos>(pick(rng, lags));
  faults.jitter = static_cast<Nanos>(pick<std::uint64_t>(rng, {0, 200, 1'000}));
  faults.torn_read = pick<double>(rng, {0, 0.5});
  // Clocks that differ by little, so that the margin is small beside the periods.
  faults.clock_skew = static_cast<Nanos>(pick<std::uint64_t>(rng, {0, 1'000, 10'000}));
  faults.clock_drift_ppm = pick<double>(rng, {0, 50});
  if (profile.table != Profile::Table::seesaw) return;
  faults.laggards = 1;
  faults.first_laggard = 1;
  faults.lag = static_cast<Nanos>(pick<std::uint64_t>(rng, {200'000, 400'000, 800'000, 1'600'000}));
  faults.jitter = static_cast<Nanos>(pick<std::uint64_t>(rng, {0, 200}));
}

void draw_faults(Rng& rng, const Profile& profile, FuzzScenario& s) {
  using Faults = Profile::Faults;
  if (profile.faults == Faults::swarm) s.sim.faults = fabric::sim::swarm(rng);
  if (profile.faults == Faults::stalls) draw_stalls(rng, s.sim.faults);
  if (profile.faults == Faults::laggards)
    draw_laggards(rng, profile, s.sim.faults);
  else if (profile.faults == Faults::none || rng.chance(0.5))
    add_timing(rng, s.sim.faults);
  // Two phases: faults, then none, and then everything must finish.
  s.sim.faults.heal_at = static_cast<Nanos>(between(rng, 500'000, 3'000'000));
  if (profile.faults == Faults::stalls) s.sim.faults.heal_at *= 5;
  if (s.plan.load.duration > 0) s.sim.faults.heal_at = s.plan.load.duration;
  s.sim.random_tie_order = rng.chance(0.5);
  s.sim.deadline = 20'000'000'000;
}

// A table with hardly more slots than keys: entries are in each other's way and must move. A cuckoo
// table of this size may refuse keys; then a PUT says that it is full, which is an answer.
void draw_cuckoo_table(Rng& rng, const std::string& owner, Profile::Table table, std::uint32_t slack,
                       FuzzScenario& s) {
  const kv::DeployConfig& d = s.plan.deploy;
  const bool is_tight = table == Profile::Table::overfull || table == Profile::Table::seesaw;
  const std::uint64_t functions = rng.chance(is_tight ? 0.9 : 0.5) ? 2 : 3;
  const std::uint64_t room = is_tight ? 0 : rng.below(4);
  const std::uint64_t spare = (table == Profile::Table::seesaw ? 1 : room) + slack;
  const std::uint64_t a_node =
      std::max((d.keys + d.nodes - 1) / d.nodes, (functions + d.nodes - 1) / d.nodes);
  // Slots are spread over the nodes evenly: the smallest number a node that holds the keys, and some.
  const std::uint64_t slots = std::max(a_node, (d.keys + spare + d.nodes - 1) / d.nodes);
  const double keys_a_node = static_cast<double>(d.keys) / d.nodes;
  const double load = std::clamp(keys_a_node / static_cast<double>(slots), 0.01, 0.95);
  const std::string how_many = owner + ".hash-functions";
  if (s.plan.options.values().contains(how_many)) s.knobs[how_many] = std::to_string(functions);
  s.knobs[owner + ".load-factor"] = fmt::format("{:.4f}", load);
}

void draw_from(const std::vector<Knob>& knobs, const std::string& table, Rng& rng, FuzzScenario& s) {
  for (const Knob& knob : knobs) {
    // Every knob takes the same draws whether it is used or not.
    const bool is_left = rng.chance(knob.chance);
    const std::string& value = pick(rng, knob.values);
    const std::string key = knob_of(table, knob.key);
    const auto has = [&](const std::string& option) { return s.plan.options.values().contains(option); };
    if (is_left || !has(key) || s.knobs.contains(key)) continue;
    if (knob.needs_key != nullptr) {
      const std::string needed = knob_of(table, knob.needs_key);
      if (!has(needed) || s.plan.options.choice(needed) != knob.needs_value) continue;
    }
    s.knobs[key] = value;
  }
}

// As tight as the clocks of a run allow: twice the skew, and the drift of a run, which ends long
// before `longest`.
Nanos margin_of(const SimFaults& faults) {
  constexpr double longest_ns = 500e6;
  const double drift = 2 * longest_ns * faults.clock_drift_ppm / 1e6;
  return 2 * faults.clock_skew + 1'000 + static_cast<Nanos>(drift);
}

Result<> draw_knobs(Rng& rng, const Profile& profile, const kv::Module& module,
                    const std::vector<std::pair<std::string, std::string>>& settings, std::uint32_t slack,
                    FuzzScenario& s) {
  s.plan.options = kv::Options(module.options());
  for (const auto& [key, value] : settings) LOCH_TRY(s.plan.options.set(key, value));
  const auto is_fixed = [&](std::string_view key) {
    return std::ranges::any_of(settings, [&](const auto& setting) { return setting.first == key; });
  };
  for (const auto& [key, value] : module.fuzz_options(rng, s.plan.deploy)) s.knobs[key] = value;
  if (const auto slots = s.knobs.find("pilaf.initial-slots"); slots != s.knobs.end())
    slots->second = std::to_string(std::stoull(slots->second) + slack);
  const std::string table = table_of(module);
  if (!table.empty()) draw_cuckoo_table(rng, table, profile.table, slack, s);
  if (const std::string margin = knob_of(table, "nessie.clock-margin");
      s.plan.options.values().contains(margin)) {
    s.knobs[margin] = format_duration(margin_of(s.sim.faults));
  }
  draw_from(knobs_of(profile.table), table, rng, s);
  draw_from(knobs(), table, rng, s);
  std::erase_if(s.knobs, [&](const auto& each) { return is_fixed(each.first); });
  for (const auto& [key, value] : s.knobs) LOCH_TRY(s.plan.options.set(key, value));
  return {};
}

}  // namespace

std::string FuzzScenario::describe() const {
  const kv::DeployConfig& d = plan.deploy;
  std::string text = fmt::format("{}: {} nodes x {} clients x window {}, {} keys, {} B values, {}", profile,
                                 d.nodes, d.client_workers, d.window, plan.records.most, d.value_size,
                                 plan.load.operations > 0 ? fmt::format("{} operations", plan.load.operations)
                                                          : format_duration(plan.load.duration));
  for (const auto& [key, value] : knobs) text += fmt::format(", {}={}", key, value);
  return text;
}

Result<FuzzScenario> draw_scenario(std::uint64_t seed, const kv::Module& module, const std::string& mutant,
                                   const std::vector<std::pair<std::string, std::string>>& settings,
                                   std::uint32_t slack) {
  FuzzScenario s;
  Rng shape(seed, "fuzz shape"), faults(seed, "fuzz faults"), options(seed, "fuzz options");
  const Profile& profile = draw_profile(shape);
  s.profile = profile.name;
  s.plan.module = &module;
  s.plan.waives_order = true;
  s.plan.mutant = mutant;
  s.sim.seed = s.plan.load.seed = s.plan.deploy.seed = seed;
  draw_shape(shape, profile, module, s);
  draw_servers(shape, profile, module, s);
  // A few keys in one table are more in each other's way than in one a node.
  Rng kinds(seed, "fuzz kinds of nodes");
  if (has_growing_table(module) && kinds.chance(0.75)) s.plan.deploy.server_nodes = 1;
  draw_faults(faults, profile, s);
  LOCH_TRY(draw_knobs(options, profile, module, settings, slack, s));
  return s;
}

}  // namespace loch::cli
