// Draws a scenario from a seed: a profile (kind of scenario), then cluster, table, options, faults and load.
#include "app/fuzz/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "app/fuzz/draw.h"
#include "app/fuzz/failures.h"
#include "app/fuzz/knobs.h"
#include "app/fuzz/rebirth.h"
#include "common/chunks/plan.h"
#include "common/kv/conflict_kinds.h"

namespace loch::fuzz {
namespace {

using fabric::sim::SimFaults;

// A profile: a kind of scenario that aims at one kind of bug.
struct Profile {
  const char* name;
  std::uint64_t keys_least, keys_most;
  double get, remove;  // shares of GETs and DELETEs; the rest are PUTs
  // operations that each client executes for each operation that it may have outstanding; 0: the load lasts
  // for a fixed time instead (profiles with stragglers, that is, slow clients)
  std::uint32_t operations;
  // none: only the interleaving varies; swarm: many kinds of faults at random; stalls: long pauses;
  // stragglers: some clients are much slower than the others.
  enum class Faults : std::uint8_t { none, swarm, stalls, stragglers } faults;
  std::uint32_t weight = 1;  // how often the profile is drawn, relative to the others
  FuzzTable table = FuzzTable::any;
};
constexpr std::array<Profile, 10> profiles = {{
    // Profile with many clients on one or two keys: conflicts between writers of the same key.
    {"hot", 1, 2, 0.4, 0.15, 30, Profile::Faults::swarm},
    // Profile with few keys in a table with hardly more slots, so that inserting a key moves other keys.
    {"collide", 3, 6, 0.45, 0.2, 30, Profile::Faults::swarm},
    // Profile with many DELETEs and PUTs, so that a key's entry reappears in other candidate slots.
    {"churn", 3, 5, 0.25, 0.35, 40, Profile::Faults::swarm},
    // Profile with more keys than a bucket has slots.
    {"crowd", 9, 20, 0.4, 0.2, 30, Profile::Faults::swarm},
    // Profile with many DELETEs and PUTs, like churn, but without faults: only the interleaving varies.
    {"calm", 2, 5, 0.4, 0.3, 40, Profile::Faults::none},
    // Profile with readers beside writers that move keys.
    {"watch", 2, 4, 0.7, 0.15, 40, Profile::Faults::none},
    // Profile in which clients stop for a long time in the middle of an operation while others change the
    // table: what they have checked is then out of date, and entries they have unlinked are reused.
    {"stall", 2, 4, 0.5, 0.2, 80, Profile::Faults::stalls},
    // Profile in which, between two steps of a straggler (very slow client), other clients move a key away
    // and back, so that the straggler finds an index word unchanged although it was changed twice (known
    // fault H2 of Nessie, docs/protocols/nessie.md). Only a key that is not deleted meanwhile shows this
    // fault.
    {"shuffle", 3, 4, 0.35, 0.22, 0, Profile::Faults::stragglers, 2, FuzzTable::overfull},
    // Profile in which keys are moved away and back, as in shuffle, but only the clients that read the moved
    // keys are slow (known fault H2 of Nessie, docs/protocols/nessie.md).
    {"seesaw", 2, 3, 0.5, 0.2, 0, Profile::Faults::stragglers, 2, FuzzTable::seesaw},
    // Profile in which, between two steps of a straggler (very slow client), the entry that the straggler is
    // about to READ expires and is reused.
    {"reuse", 1, 2, 0.55, 0.05, 0, Profile::Faults::stragglers, 2, FuzzTable::recycling},
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

// Adds random delays between the steps of clients, so that they interleave at every step.
void add_timing(Rng& rng, SimFaults& faults) {
  faults.jitter = static_cast<Nanos>(pick<std::uint64_t>(rng, {100, 1'000, 5'000, 20'000}));
  faults.slow_dma = pick<double>(rng, {0, 0.02, 0.1, 0.3});
  faults.slow_dma_span = static_cast<Nanos>(pick<std::uint64_t>(rng, {2'000, 10'000, 40'000}));
}

// Makes servers pause in the middle of changes to memory, so that others READ half-written data.
void add_interrupts(Rng& rng, SimFaults& faults) {
  if (!rng.chance(0.4)) return;
  faults.interrupted = pick<double>(rng, {0.02, 0.1, 0.4});
  faults.interrupted_span = static_cast<Nanos>(pick<std::uint64_t>(rng, {2'000, 10'000, 50'000}));
}

bool has_tight_table(const kv::Module& module) {
  return has_sized_table(module) || has_growing_table(module);
}

// Chooses the number of readers and writers: one writing client worker per node is enough to make insertions
// move keys, so all other client workers read.
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

// Draws mostly small sizes, sometimes odd ones and values of several packets. Values under 4 bytes are not
// drawn, because different versions would have equal bytes.
void draw_sizes(Rng& rng, bool is_modest, kv::DeployConfig& d) {
  d.key_size = rng.chance(0.5) ? pick<std::uint32_t>(rng, {16, 24, 32})
                               : static_cast<std::uint32_t>(between(rng, 9, 128));
  const double style = rng.uniform();
  d.value_size = style < 0.5   ? pick<std::uint32_t>(rng, {16, 40, 200})
                 : style < 0.9 ? static_cast<std::uint32_t>(between(rng, 4, 300))
                               : static_cast<std::uint32_t>(between(rng, 301, 5'000));
  if (is_modest) d.value_size = 16 + d.value_size % 185;
}

void draw_shape(Rng& rng, const Profile& profile, const kv::Module& module, FuzzRoom room, FuzzScenario& s) {
  kv::DeployConfig& d = s.plan.deploy;
  d.nodes = static_cast<std::uint32_t>(between(rng, 2, 4));
  d.client_workers = static_cast<std::uint32_t>(rng.chance(0.85) ? between(rng, 1, 3) : between(rng, 4, 6));
  d.window = rng.chance(0.7) ? 1 : static_cast<std::uint32_t>(between(rng, 2, 4));
  draw_sizes(rng, room.has_modest_values, d);
  d.kept_value_bytes = d.value_size;
  d.keys = d.max_keys = between(rng, profile.keys_least, profile.keys_most);
  d.memory_bytes = fuzz_memory_bytes;
  const bool is_overfull = profile.table == FuzzTable::overfull && has_tight_table(module);
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
  load.may_be_full = is_overfull;
  if (profile.table == FuzzTable::seesaw && has_tight_table(module)) draw_seesaw(rng, s);
}

using Settings = std::vector<std::pair<std::string, std::string>>;

// If the user's settings let clients get memory in chunks, each node has a management worker that gives them
// out, and often some nodes hold memory without clients. If the settings place the data on such nodes, there
// is at least one.
void draw_managers(const kv::Module& module, const Settings& settings, FuzzScenario& s) {
  kv::Options options(module.options());
  for (const auto& [key, value] : settings) {
    if (!options.set(key, value)) return;  // draw_knobs() reports the error
  }
  s.plan.deploy.server_workers = chunks::managers(options);
  const bool needs_nodes = chunks::needs_memory_nodes(options);
  if (s.plan.deploy.server_workers == 0 && !needs_nodes) return;
  Rng rng(s.plan.deploy.seed, "fuzz memory nodes");
  const std::uint64_t least = needs_nodes ? 1 : 0;
  s.plan.deploy.server_nodes = static_cast<std::uint32_t>(between(rng, least, s.plan.deploy.nodes - 1));
}

// If the protocol's server workers each own a part of the table, some runs have only one server worker, which
// owns all keys. Keys then compete for slots, and clients compete for the server worker.
void draw_servers(Rng& rng, const Profile& profile, const kv::Module& module, const Settings& settings,
                  FuzzScenario& s) {
  const std::uint32_t most = module.default_servers();
  if (most == 0) return draw_managers(module, settings, s);
  s.plan.deploy.server_workers = static_cast<std::uint32_t>(between(rng, 1, most));
  const bool is_tight = profile.table == FuzzTable::overfull || profile.table == FuzzTable::seesaw;
  const bool is_one = rng.chance(is_tight ? 0.9 : 0.5);
  if (!is_one || has_growing_table(module)) return;
  s.plan.deploy.server_workers = s.plan.deploy.server_nodes = 1;
}

void draw_stalls(Rng& rng, SimFaults& faults) {
  faults.pause_rate = pick<double>(rng, {1'000, 4'000, 16'000});
  faults.outage_span = static_cast<Nanos>(pick<std::uint64_t>(rng, {100'000, 500'000, 2'000'000}));
}

void draw_stragglers(Rng& rng, const Profile& profile, SimFaults& faults) {
  const bool is_overfull = profile.table == FuzzTable::overfull;
  faults.stragglers = pick<double>(rng, {0.25, 0.5, 0.75});
  const std::vector<std::uint64_t> lags = is_overfull
                                              ? std::vector<std::uint64_t>{60'000, 120'000, 300'000, 800'000}
                                              : std::vector<std::uint64_t>{150'000, 400'000, 800'000};
  faults.lag = static_cast<Nanos>(pick(rng, lags));
  faults.jitter = static_cast<Nanos>(pick<std::uint64_t>(rng, {0, 200, 1'000}));
  faults.torn_read = pick<double>(rng, {0, 0.5});
  // Draws clock differences that are small compared with the expiry period, so that the clock margin is small
  // too.
  faults.clock_skew = static_cast<Nanos>(pick<std::uint64_t>(rng, {0, 1'000, 10'000}));
  faults.clock_drift_ppm = pick<double>(rng, {0, 50});
  if (profile.table != FuzzTable::seesaw) return;
  faults.stragglers = 1;
  faults.first_straggler = 1;
  faults.lag = static_cast<Nanos>(pick<std::uint64_t>(rng, {200'000, 400'000, 800'000, 1'600'000}));
  faults.jitter = static_cast<Nanos>(pick<std::uint64_t>(rng, {0, 200}));
}

void draw_faults(Rng& rng, const Profile& profile, FuzzScenario& s) {
  using Faults = Profile::Faults;
  if (profile.faults == Faults::swarm) s.sim.faults = fabric::sim::swarm(rng);
  if (profile.faults == Faults::stalls) draw_stalls(rng, s.sim.faults);
  if (profile.faults == Faults::stragglers)
    draw_stragglers(rng, profile, s.sim.faults);
  else if (profile.faults == Faults::none || rng.chance(0.5))
    add_timing(rng, s.sim.faults);
  // Simulated faults happen only until heal_at; afterwards every operation has to end.
  s.sim.faults.heal_at = static_cast<Nanos>(between(rng, 500'000, 3'000'000));
  if (profile.faults == Faults::stalls) s.sim.faults.heal_at *= 5;
  if (s.plan.load.duration > 0) s.sim.faults.heal_at = s.plan.load.duration;
  s.sim.random_tie_order = rng.chance(0.5);
  s.sim.deadline = 20'000'000'000;
}

// Turns some or all of the PUTs into INSERTs, if the protocol has INSERTs.
void draw_inserts(Rng& rng, workloads::RunPlan& plan) {
  if (!rng.chance(0.25) || !plan.module->data(plan.options).insert_if_absent.is_there) return;
  workloads::OperationMix& mix = plan.load.mix;
  mix.insert_if_absent = mix.put * pick<double>(rng, {0.3, 0.6, 1});
  mix.put -= mix.insert_if_absent;
}

}  // namespace

namespace {

std::string describe_load(const workloads::LoadConfig& load) {
  if (load.script) return fmt::format("{} operations as listed", operations_in(*load.script));
  return load.operations > 0 ? fmt::format("{} operations", load.operations) : format_duration(load.duration);
}

}  // namespace

std::uint64_t operations_in(const workloads::Script& script) {
  std::uint64_t sum = 0;
  for (const workloads::ScriptedClient& client : script) sum += client.operations.size();
  return sum;
}

std::string FuzzScenario::describe() const {
  const kv::DeployConfig& d = plan.deploy;
  std::string text = fmt::format("{}: {} nodes x {} clients x window {}, {} keys of {} B, {} B values, {}",
                                 profile, d.nodes, d.client_workers, d.window, plan.records.most, d.key_size,
                                 d.value_size, describe_load(plan.load));
  for (const auto& [key, value] : knobs) text += fmt::format(", {}={}", key, value);
  if (plan.load.conflicts) text += fmt::format(", back-off {}", name(plan.load.conflicts->kind));
  return text + describe_failures(*this);
}

Result<FuzzScenario> draw_scenario(std::uint64_t seed, const kv::Module& module, const std::string& mutant,
                                   const std::vector<std::pair<std::string, std::string>>& settings,
                                   FuzzRoom room, Unfair unfair) {
  FuzzScenario s;
  Rng shape(seed, "fuzz shape"), faults(seed, "fuzz faults"), options(seed, "fuzz options");
  const Profile& profile = draw_profile(shape);
  s.profile = profile.name;
  s.plan.module = &module;
  s.plan.waives_order = true;
  s.plan.mutant = mutant;
  s.sim.seed = s.plan.load.seed = s.plan.deploy.seed = seed;
  draw_shape(shape, profile, module, room, s);
  draw_servers(shape, profile, module, settings, s);
  // A table that can grow is mostly put on a single node, because the few keys then compete more for its
  // slots than in one table per node.
  Rng kinds(seed, "fuzz kinds of nodes");
  if (has_growing_table(module) && kinds.chance(0.75)) s.plan.deploy.server_nodes = 1;
  draw_faults(faults, profile, s);
  Rng interrupts(seed, "fuzz interrupts");
  add_interrupts(interrupts, s.sim.faults);
  Rng failures(seed, "fuzz failures"), storms(seed, "fuzz storms");
  // Failures are drawn less often with stragglers (very slow clients): failures lengthen the expiry period,
  // and a long expiry period hides most bugs that need stragglers.
  const double share = profile.faults == Profile::Faults::stragglers ? 0.4 : 1;
  draw_failures(failures, storms, profile.table, share, s);
  Rng rebirths(seed, "fuzz rebirths");
  const bool is_reborn = promises_something(module) && draw_rebirth(rebirths, s);
  LOCH_TRY(draw_knobs(options, profile.table, settings, room.slack, is_reborn, s));
  if (!is_reborn) draw_repairs(failures, s);
  plan_repairs(s);
  Rng inserts(seed, "fuzz inserts if absent");
  draw_inserts(inserts, s.plan);
  if (unfair == Unfair::clock) s.sim.faults.clock_skew = 20 * s.sim.faults.clock_skew + 100'000;
  return s;
}

}  // namespace loch::fuzz
