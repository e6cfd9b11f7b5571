// Chooses the deployment of an exploration: its size, options by their role, and keys that compete for slots.
#include "app/explore/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include "app/explore/run.h"
#include "common/chunks/plan.h"

namespace loch::explore {
namespace {

// Value of the options that limit an operation's attempts: small, because every attempt multiplies the number
// of states.
constexpr const char* few_attempts = "3";
// Value of the expiry option. It is measured on each worker's own clock, which the worker's requests (100 ns
// each) and timers advance. Operations take some tens of microseconds, so entries expire only if the explorer
// makes the clocks jump (Bounds::clocks).
constexpr const char* expiry = "10ms";
constexpr const char* clock_margin = "1ms";
constexpr const char* backoff_cap = "10us";
// Value of the option for the reconnect timeout: short, so that there are few attempts to reconnect
// (Bounds::cuts), each of which is a state.
constexpr const char* reconnect_timeout = "50us";
// At most this many keys are added to enlarge the table until the protocol accepts it.
constexpr std::uint64_t most_extra_keys = 16;
// number of candidate keys that are tried for one key of the scenario
constexpr std::uint32_t most_candidates = 3000;
constexpr Nanos longest_period = 10'000'000'000;

// memory addresses: pairs of region index and offset in bytes
using Places = std::set<std::pair<std::int32_t, std::uint64_t>>;

std::vector<std::byte> bytes_of_key(char letter, std::uint32_t number) {
  std::vector<std::byte> key(key_bytes);
  key[0] = static_cast<std::byte>(letter);
  std::memcpy(key.data() + 4, &number, sizeof number);
  return key;
}

// Sets the options for attempts, time-outs, spare entries and the table's load to values that keep the
// exploration small, unless the caller has set them.
Result<> choose_options(const PlanRequest& request, Plan& plan) {
  plan.options = kv::Options(request.module->options());
  const auto is_given = [&](const std::string& key) {
    return std::ranges::any_of(request.settings, [&](const auto& each) { return each.first == key; });
  };
  for (const kv::OptionSpec& spec : plan.options.specs()) {
    if (is_given(spec.key)) continue;
    std::string value;
    if (spec.role == kv::OptionRole::load_factor)
      value = fmt::format("{}", spec.maximum);
    else if (spec.role == kv::OptionRole::spare_entries)
      value = fmt::format("{}", std::max(spec.minimum, 2.0 + 2.0 * request.scenario.operations()));
    else if (spec.role == kv::OptionRole::attempts)
      value = few_attempts;
    else if (spec.role == kv::OptionRole::expiry)
      value = expiry;
    else if (spec.role == kv::OptionRole::clock_margin)
      value = clock_margin;
    else if (spec.role == kv::OptionRole::backoff_cap)
      value = backoff_cap;
    else if (spec.role == kv::OptionRole::reconnect_timeout)
      value = reconnect_timeout;
    if (value.empty()) continue;
    LOCH_TRY(plan.options.set_default(spec.key, value));
    plan.chosen[spec.key] = value;
  }
  for (const auto& [key, value] : request.settings) LOCH_TRY(plan.options.set(key, value));
  for (const kv::OptionSpec& spec : plan.options.specs()) {
    if (spec.role != kv::OptionRole::file || plan.options.text(spec.key).empty()) continue;
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{}: \"{}\": every order begins with the same memory, and a file would go on from the "
                    "order before; expected none",
                    spec.key, plan.options.text(spec.key)));
  }
  plan.jump = longest_period;
  for (const kv::OptionSpec& spec : plan.options.specs()) {
    if (spec.role == kv::OptionRole::expiry) plan.jump = 3 * plan.options.integer(spec.key);
  }
  return {};
}

// Number of server workers of a node: one of the protocol's own if it has any, and the management worker that
// gives out chunks of memory (runs of blocks) if the options choose that clients ask for them.
std::uint32_t servers_of(const Plan& plan) {
  return (plan.module->default_servers() > 0 ? 1 : 0) + chunks::managers(plan.options);
}

kv::DeployConfig shape_of(const Plan& plan, std::uint32_t server_nodes, std::uint64_t extra_keys,
                          std::uint32_t window) {
  const auto clients = static_cast<std::uint32_t>(plan.scenario.clients.size());
  kv::DeployConfig deploy;
  deploy.server_nodes = server_nodes;
  deploy.nodes = server_nodes == 0 ? std::max(2U, clients) : server_nodes + clients;
  deploy.client_workers = 1;
  deploy.server_workers = servers_of(plan);
  deploy.key_size = key_bytes;
  deploy.value_size = deploy.kept_value_bytes = plan.value_bytes;
  deploy.window = window;
  deploy.keys = plan.is_absent ? 0 : plan.scenario.keys.size();
  deploy.max_keys = plan.scenario.keys.size() + extra_keys;
  deploy.memory_bytes = std::uint64_t{1} << 24U;
  return deploy;
}

// Deploys a store of the plan's size on the explorer's fabric; an error means that the protocol does not
// accept this size.
Result<> try_shape(const Plan& plan) {
  fabric::step::StepFabric fabric(plan.deploy.nodes);
  fabric.set_capabilities(plan.capabilities);
  LOCH_ASSIGN(const auto store, plan.module->deploy(plan.deploy, plan.options, plan.mutant));
  for (std::uint32_t node = 0; node < plan.deploy.nodes; ++node)
    LOCH_TRY(store->setup_node(fabric, static_cast<fabric::NodeId>(node)));
  return {};
}

// Chooses the smallest deployment that the protocol accepts. If it accepts none, returns the error about the
// largest deployment without memory nodes that were not asked for: smaller ones may be refused for their
// size.
Result<> choose_shape(Plan& plan, std::uint32_t window) {
  std::optional<Error> refusal;
  const std::uint32_t servers = servers_of(plan) > 0 ? 1 : 0;
  constexpr std::uint32_t memory_nodes = 2;  // for a protocol whose data lie on nodes without clients
  const std::uint32_t wanted = chunks::needs_memory_nodes(plan.options) ? memory_nodes : servers;
  for (const std::uint32_t server_nodes : {servers, 0U, memory_nodes}) {
    for (std::uint64_t extra = 0; extra <= most_extra_keys; ++extra) {
      plan.deploy = shape_of(plan, server_nodes, extra, window);
      const Result<> tried = try_shape(plan);
      if (tried.has_value()) return {};
      if (server_nodes == wanted) refusal = tried.error();
    }
  }
  return std::unexpected(*refusal);
}

// The memory addresses that a GET of the key reads, observed by running one on an empty table.
Places places_of(const Plan& plan, const std::vector<std::byte>& key) {
  Plan alone = plan;
  alone.scenario.clients.assign(1, {Step{Verb::get, 0}});
  alone.scenario.prepared = 0;
  alone.keys = {key};
  alone.is_absent = true;
  alone.deploy.keys = 0;
  alone.bounds = {};
  Run run(alone);
  run.set_hashing(false);
  Places places;
  for (int i = 0; i < 10'000 && !run.is_over(); ++i) {
    const std::vector<Move> moves = run.moves();
    if (moves.empty()) break;
    const Footprint print = run.apply(moves.front());
    if (print.region >= 0) places.emplace(print.region, print.from);
  }
  return places;
}

std::size_t overlap(const Places& a, const Places& b) {
  return static_cast<std::size_t>(
      std::ranges::count_if(a, [&](const auto& each) { return b.contains(each); }));
}

// Chooses keys for the scenario's names. Names with the same first letter get keys whose GETs read the same
// addresses, and other names keys whose GETs have `share` addresses in common, as far as such keys are found.
void choose_keys(Plan& plan) {
  std::vector<Places> chosen;
  for (const std::string& name : plan.scenario.keys) {
    std::vector<std::byte> best;
    Places best_places;
    std::int64_t best_score = INT64_MIN;
    for (std::uint32_t number = 1; number < most_candidates; ++number) {
      const std::vector<std::byte> key = bytes_of_key(name.front(), number);
      if (std::ranges::find(plan.keys, key) != plan.keys.end()) continue;
      const Places places = places_of(plan, key);
      std::int64_t score = 0, most = 0;
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        const bool is_rival = plan.scenario.keys[i].front() == name.front();
        const auto common = static_cast<std::int64_t>(overlap(places, chosen[i]));
        score += is_rival ? common : -std::abs(common - std::int64_t{plan.share});
        if (is_rival) most += static_cast<std::int64_t>(std::max(places.size(), chosen[i].size()));
      }
      if (score > best_score) {
        best_score = score;
        best = key;
        best_places = places;
      }
      if (score == most) break;
      // If this protocol's GETs read at most one address, further candidates are unlikely to fit better.
      if (number > 64 && places.size() <= 1) break;
    }
    plan.keys.push_back(best);
    chosen.push_back(best_places);
  }
}

// Capabilities of the explorer's fabric. If `tears`, they are the capabilities of a simulation in which the
// cache lines of a request arrive whole, but in any order.
fabric::Capabilities capabilities(bool tears) {
  fabric::Capabilities all;
  all.fabric = "step";
  all.device = "one request at a time";
  all.in_order_placement = all.in_order_reads = !tears;
  if (tears) all.untorn_bytes = 64;
  all.max_inline_bytes = 256;
  all.datagram_queue_pairs = 8;
  all.simulated = true;
  return all;
}

}  // namespace

Result<Plan> make_plan(PlanRequest request) {
  Plan plan;
  LOCH_TRY(choose_options(request, plan));
  plan.module = request.module;
  plan.scenario = std::move(request.scenario);
  plan.mutant = request.mutant;
  plan.bounds = request.bounds;
  plan.is_absent = request.is_absent;
  plan.share = request.share;
  plan.value_bytes = request.value_bytes;
  plan.capabilities = capabilities(request.bounds.torn > 0);
  if (plan.module->consistency(plan.options) == kv::Consistency::none) {
    return fail(ErrorCode::invalid_argument, fmt::format("{} {}: expected a protocol that stores values",
                                                         plan.module->name(), plan.module->unverifiable()));
  }
  const kv::InsertSupport inserts = plan.module->data(plan.options).insert_if_absent;
  const auto has_insert = [](const std::vector<Step>& program) {
    return std::ranges::find(program, Verb::insert, &Step::verb) != program.end();
  };
  if (!inserts.is_there && std::ranges::any_of(plan.scenario.clients, has_insert)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("scenario: INSERT: {} has GET, PUT and DELETE alone: {}", plan.module->name(),
                            inserts.how));
  }
  fabric::Requirements needs = plan.module->requirements(plan.options);
  // A protocol that requires in-order placement may be explored without it, since the exploration is to show
  // the consequences.
  if (request.bounds.torn > 0) needs.in_order_placement = false;
  LOCH_TRY(fabric::check(needs, plan.capabilities));
  LOCH_TRY(choose_shape(plan, request.window));
  choose_keys(plan);
  if (plan.scenario.prepared > 0 && !Run(plan).is_prepared()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--before: an operation of {} does not end when nobody else does anything",
                            plan.module->name()));
  }
  return plan;
}

}  // namespace loch::explore
