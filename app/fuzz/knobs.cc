// The values that an option of each role may take in a fuzz run.
#include "app/fuzz/knobs.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/fuzz/draw.h"
#include "common/chunks/plan.h"

namespace loch::fuzz {
namespace {

using fabric::sim::SimFaults;
using Role = kv::OptionRole;

// The values that a fuzz run may give to an option with this role (what the option sets, such as an expiry
// period). Every protocol claims to be correct with each of them.
struct Knob {
  Role role;
  double chance;  // probability that the option keeps its default
  std::vector<std::string> values;
};

// The options that depend on the kind of table. They are drawn before all other options.
const std::vector<Knob>& knobs_of(FuzzTable table) {
  static const std::vector<Knob> any,
      recycling =
          {
              {Role::spare_entries, 0, {"2", "4", "8"}},        {Role::expiry, 0, {"60us", "100us", "200us"}},
              {Role::background_period, 0.3, {"10us", "30us"}}, {Role::backoff_cap, 0, {"100us"}},
              {Role::cache, 0, {"false", "false", "true"}},
          },
      overfull =
          {
              // Usually there are so many spare entries that a MIGRATE (move of a key to another slot) never
              // waits for a free entry; sometimes there are so few that entries are reused while other
              // clients still read them.
              {Role::spare_entries, 0, {"4096", "4096", "16"}},
              {Role::expiry, 0, {"1s", "1s", "300us"}},
          },
      seesaw = {
          // Without a client cache every GET reads the key's slots. A short back-off lets a GET that meets an
          // unfinished MIGRATE (move of a key to another slot) retry soon.
          {Role::spare_entries, 0, {"1024"}},
          {Role::expiry, 0, {"1s"}},
          {Role::backoff_cap, 0, {"10us"}},
          {Role::cache, 0, {"false"}},
      };
  switch (table) {
    case FuzzTable::any:
      break;
    case FuzzTable::recycling:
      return recycling;
    case FuzzTable::overfull:
      return overfull;
    case FuzzTable::seesaw:
      return seesaw;
  }
  return any;
}

const std::vector<Knob>& general_knobs() {
  static const std::vector<Knob> all = {
      {Role::spare_entries, 0, {"16", "256", "1024"}},
      {Role::cache, 0.3, {"true", "false"}},
      {Role::cache_share, 0.3, {"0.3", "1"}},
      {Role::expiry, 0.2, {"300us", "1ms", "5ms", "20ms"}},
      {Role::background_period, 0.7, {"10us", "100us"}},
      {Role::backoff_cap, 0.5, {"10us", "100us"}},
      {Role::reconnect_timeout, 0.5, {"100us", "1ms"}},
      {Role::attempts, 0.8, {"4", "16"}},
  };
  return all;
}

// Options for runs with failures: time-outs not much longer than the failures, so that runs do not consist of
// waiting.
const std::vector<Knob>& impatient_knobs() {
  static const std::vector<Knob> all = {
      {Role::give_up, 0, {"1ms", "3ms"}},
      {Role::reconnect_timeout, 0, {"100us", "500us", "2ms"}},
  };
  return all;
}

// Options for scenarios in which a node crashes and soon restarts: short time-outs, so that clients send
// requests again while the node restarts, and caches, so that clients hold entries from before the crash.
const std::vector<Knob>& rebirth_knobs() {
  static const std::vector<Knob> all = {
      {Role::give_up, 0, {"1ms", "1ms", "3ms"}},
      {Role::reconnect_timeout, 0, {"100us", "500us", "2ms"}},
      {Role::reply_timeout, 0, {"10us", "40us", "100us"}},
      {Role::cache, 0.3, {"true"}},
      {Role::cache_share, 0, {"1"}},
  };
  return all;
}

class KnobDrawer {
 public:
  KnobDrawer(Rng& rng, const std::vector<std::pair<std::string, std::string>>& settings, FuzzScenario& s)
      : rng_(rng), settings_(settings), s_(s), module_(*s.plan.module) {}

  [[nodiscard]] bool is_fixed(std::string_view key) const {
    return std::ranges::any_of(settings_, [&](const auto& setting) { return setting.first == key; });
  }

  // Sets an option to `value`. Does nothing if the user fixed the option, if the protocol refuses the value,
  // or (without `overrides`) if the option was drawn before.
  void set(const std::optional<kv::OptionSpec>& spec, const std::string& value, bool overrides = false) {
    if (!spec || is_fixed(spec->key) || (!overrides && s_.knobs.contains(spec->key))) return;
    kv::Options changed = s_.plan.options;
    if (!changed.set(spec->key, value)) return;
    s_.plan.options = std::move(changed);
    s_.knobs[spec->key] = value;
  }

  void draw(const std::vector<Knob>& knobs, bool overrides = false) {
    for (const Knob& knob : knobs) {
      // Draws random numbers even for options that are not used, so that later draws are the same whether an
      // option is used or not.
      const bool is_left = rng_.chance(knob.chance);
      const std::string& value = pick(rng_, knob.values);
      if (!is_left) set(option_with(module_, knob.role), value, overrides);
    }
  }

  // Draws the options that have no role (kv::OptionRole), and the option for the search depth, from the
  // values that the protocol suggests. A value is undone if the deployment refuses it in combination with
  // other options.
  void draw_own() {
    for (const kv::OptionSpec& spec : module_.options()) {
      const bool is_own = spec.role == Role::none || spec.role == Role::search_depth;
      if (!is_own || spec.fuzz_values.empty()) continue;
      const bool is_left = rng_.chance(0.5);
      const std::string& value = pick(rng_, spec.fuzz_values);
      if (is_left || is_fixed(spec.key) || s_.knobs.contains(spec.key)) continue;
      const kv::Options before = s_.plan.options;
      set(spec, value);
      const auto deployed = module_.deploy(s_.plan.deploy, s_.plan.options, s_.plan.mutant);
      if (deployed || deployed.error().code != ErrorCode::invalid_argument) continue;
      s_.plan.options = before;
      s_.knobs.erase(spec.key);
    }
  }

  // In half of the scenarios, makes the clients' request numbers begin slightly below their largest value, so
  // that the numbers wrap around during the run.
  void draw_first_number() {
    const std::optional<kv::OptionSpec> spec = option_with(module_, Role::first_number);
    const bool is_left = rng_.chance(0.5);
    const std::uint64_t below = rng_.below(30);
    if (!spec || is_left) return;
    set(spec, std::to_string(static_cast<std::uint64_t>(spec->maximum) - below));
  }

  // Sizes the table: mostly with hardly more slots than keys, so that inserting a key has to move other keys,
  // and sometimes with ample room. A full cuckoo table may refuse keys, so a PUT may then answer "table
  // full".
  void draw_table(FuzzTable table, std::uint32_t slack) {
    const std::optional<kv::OptionSpec> load = option_with(module_, Role::load_factor);
    // A PUT may also answer "table full" in a table that can grow, because the table can grow only a few
    // times.
    if (has_growing_table(module_)) s_.plan.load.may_be_full = true;
    if (!load) return;
    const kv::DeployConfig& d = s_.plan.deploy;
    const bool is_tight = table == FuzzTable::overfull || table == FuzzTable::seesaw;
    const std::uint64_t functions = rng_.chance(is_tight ? 0.9 : 0.5) ? 2 : 3;
    const std::uint64_t room = is_tight ? 0 : rng_.below(4);
    // In a roomy table an insertion finds a slot for every key. There is one exception: if keys have two
    // candidate slots and an insertion may move only one key, one in 60,000 scenarios fails.
    const bool is_roomy = rng_.chance(0.3) && table != FuzzTable::overfull && table != FuzzTable::seesaw;
    s_.plan.load.may_be_full = s_.plan.load.may_be_full || !is_roomy || functions == 2;
    const std::uint64_t spare = (table == FuzzTable::seesaw ? 1 : room) + slack;
    const std::uint64_t a_node =
        std::max((d.keys + d.nodes - 1) / d.nodes, (functions + d.nodes - 1) / d.nodes);
    // Each node has the same number of slots: the smallest with which the table holds the keys and the spare
    // slots, and has a slot for each hash function.
    const std::uint64_t tight = std::max(a_node, (d.keys + spare + d.nodes - 1) / d.nodes);
    const std::uint64_t slots = is_roomy ? 6 * tight + 6 : tight;
    const double keys_a_node = static_cast<double>(d.keys) / d.nodes;
    const double share = std::clamp(keys_a_node / static_cast<double>(slots), 0.01, 0.95);
    set(option_with(module_, Role::hash_functions), std::to_string(functions), true);
    set(load, fmt::format("{:.4f}", share), true);
  }

  // Sets the clock margin as low as the run's clocks allow: twice the clocks' skew, and the drift until
  // `longest_ns`, by which every run has ended.
  void set_margin() {
    constexpr double longest_ns = 500e6;
    const SimFaults& faults = s_.sim.faults;
    const double drift = 2 * longest_ns * faults.clock_drift_ppm / 1e6;
    const Nanos margin = 2 * faults.clock_skew + 1'000 + static_cast<Nanos>(drift);
    set(option_with(module_, Role::clock_margin), format_duration(margin), true);
  }

  // Makes the expiry period longer than a failing request can take, which every scheme that reuses entries
  // after a time requires.
  void lengthen_expiry() {
    const std::optional<kv::OptionSpec> expiry = option_with(module_, Role::expiry);
    const std::optional<kv::OptionSpec> reconnect = option_with(module_, Role::reconnect_timeout);
    if (!expiry || !s_.failures.retries) return;
    const Nanos longest =
        s_.failures.retries->longest() + (!reconnect ? 0 : s_.plan.options.integer(reconnect->key));
    const Nanos least = 2 * longest + 100'000;
    if (s_.plan.options.integer(expiry->key) < least) set(expiry, format_duration(least), true);
  }

  // Shortens the expiry period if there are few spare entries, because PUTs then wait for entries to expire.
  void fit_spares() {
    const std::optional<kv::OptionSpec> expiry = option_with(module_, Role::expiry);
    const std::optional<kv::OptionSpec> spares = option_with(module_, Role::spare_entries);
    if (!expiry) return;
    constexpr Nanos longest = 5'000'000;
    constexpr std::int64_t many = 256;
    const bool is_tight = spares && s_.plan.options.integer(spares->key) < many;
    if (is_tight && s_.plan.options.integer(expiry->key) > longest)
      set(expiry, format_duration(longest), true);
    // At the run's end one client writes every key, and the entries that belong to this client may be too few
    // for all keys. A PUT may then answer "table full"; entries that were lost are found by Store::audit.
    const kv::DeployConfig& d = s_.plan.deploy;
    const std::uint64_t needed = (s_.plan.records.most + 2 * d.window) * d.client_workers;
    // Entries of memory nodes go over to the clients that replace or delete them.
    const bool is_drained = is_tight && chunks::needs_memory_nodes(s_.plan.options);
    if (spares && (is_drained || static_cast<std::uint64_t>(s_.plan.options.integer(spares->key)) < needed))
      s_.plan.load.may_be_full = true;
  }

  // Accepts the answer "table full" to a PUT if an insertion may move only one or two keys, because such an
  // insertion may find no slot even in a roomy table.
  void judge_search() {
    constexpr std::int64_t thorough = 3;
    const std::optional<kv::OptionSpec> depth = option_with(module_, Role::search_depth);
    if (depth && s_.plan.options.integer(depth->key) < thorough) s_.plan.load.may_be_full = true;
  }

  // Extends the time limit of the final check, which GETs and PUTs every key, by three expiry periods and by
  // four times the longest time of a failing request.
  void set_patience() {
    const std::optional<kv::OptionSpec> expiry = option_with(module_, Role::expiry);
    Nanos& patience = s_.plan.load.sweep_patience;
    if (expiry) patience += 3 * s_.plan.options.integer(expiry->key);
    if (s_.failures.retries) patience += 4 * s_.failures.retries->longest();
  }

 private:
  Rng& rng_;
  const std::vector<std::pair<std::string, std::string>>& settings_;
  FuzzScenario& s_;
  const kv::Module& module_;
};

}  // namespace

std::optional<kv::OptionSpec> option_with(const kv::Module& module, kv::OptionRole role) {
  for (kv::OptionSpec& spec : module.options()) {
    if (spec.role == role) return std::move(spec);
  }
  return std::nullopt;
}

Result<> draw_knobs(Rng& rng, FuzzTable table,
                    const std::vector<std::pair<std::string, std::string>>& settings, std::uint32_t slack,
                    bool is_reborn, FuzzScenario& s) {
  const kv::Module& module = *s.plan.module;
  s.plan.options = kv::Options(module.options());
  for (const auto& [key, value] : settings) LOCH_TRY(s.plan.options.set(key, value));
  KnobDrawer drawer(rng, settings, s);
  for (const auto& [key, value] : module.fuzz_options(rng, s.plan.deploy)) {
    if (drawer.is_fixed(key)) continue;
    LOCH_TRY(s.plan.options.set(key, value));
    s.knobs[key] = value;
  }
  if (const auto grows = option_with(module, Role::initial_slots); grows && s.knobs.contains(grows->key)) {
    drawer.set(grows, std::to_string(s.plan.options.integer(grows->key) + slack), true);
  }
  drawer.draw_table(table, slack);
  drawer.set_margin();
  drawer.draw(knobs_of(table));
  if (is_reborn)
    drawer.draw(rebirth_knobs(), true);
  else if (!s.failures.is_calm())
    drawer.draw(impatient_knobs(), true);
  drawer.draw(general_knobs());
  drawer.draw_first_number();
  drawer.fit_spares();
  drawer.lengthen_expiry();
  drawer.set_patience();
  drawer.draw_own();
  drawer.judge_search();
  return {};
}

}  // namespace loch::fuzz
