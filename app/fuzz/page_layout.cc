// Lays out a history for drawing. The time axis is not linear: gaps grow with the logarithm of their length,
// and each operation begins far enough after its client's previous one to leave room for its label.
#include "app/fuzz/page_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/fabric/sim/faults.h"

namespace loch::fuzz {
namespace {

using check::Operation;

constexpr std::size_t most_drawn = 120;
constexpr double letter_width = 6.6, gap = 10;

bool is_same(const Operation& a, const Operation& b) {
  return a.client == b.client && a.kind == b.kind && a.key == b.key && a.invoke_ns == b.invoke_ns;
}

std::string lane_name(const kv::DeployConfig& d, std::int32_t client) {
  const auto number = static_cast<std::uint32_t>(client);
  const std::uint32_t node = number / d.window / d.client_workers + d.server_nodes;
  if (node >= d.nodes) return fmt::format("client {} (after a restart)", client);
  return fmt::format("client {} (n{}.{})", client, node, number / d.window % d.client_workers);
}

std::string label_of(const Operation& o, std::size_t key) {
  const std::string_view what = capital_name(o.kind);
  std::string text = fmt::format("{} {}", what, key_letter(key));
  if (brings_value(o.kind)) text += " = " + o.value.value_or("");
  if (o.kind == OpKind::get && o.outcome == Outcome::ok) return text + " : " + o.value.value_or("");
  switch (o.outcome) {
    case Outcome::ok:
      return text + " : ok";
    case Outcome::not_found:
      return text + " : absent";
    case Outcome::exists:
      return text + " : exists";
    case Outcome::failed:
      return text + " : failed";
    case Outcome::unknown:
      return text + " : ?";
  }
  return text;
}

class Layouter {
 public:
  Layouter(const FuzzScenario& s, const std::vector<Operation>& history, const std::vector<Operation>& sub)
      : s_(s), history_(history), sub_(sub) {}

  Layout run() {
    choose_operations();
    choose_failures();
    place();
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool contradicts(const Operation& o) const {
    return std::ranges::any_of(sub_, [&](const Operation& each) { return is_same(each, o); });
  }
  // The order in which operations are chosen for drawing, lowest first: 0 for operations that contradict each
  // other, 1 for other operations on the same keys, 2 for the rest.
  [[nodiscard]] int weight(const Operation& o) const {
    if (contradicts(o)) return 0;
    return std::ranges::any_of(sub_, [&](const Operation& each) { return each.key == o.key; }) ? 1 : 2;
  }

  void choose_operations() {
    std::vector<const Operation*> chosen;
    for (const Operation& o : history_) {
      if (o.client != check::preload_client) chosen.push_back(&o);
    }
    std::ranges::sort(chosen, {},
                      [&](const Operation* o) { return std::tuple(weight(*o), o->invoke_ns, o->client); });
    out_.left_out = chosen.size() > most_drawn ? chosen.size() - most_drawn : 0;
    chosen.resize(chosen.size() - out_.left_out);
    std::ranges::sort(chosen, {}, [](const Operation* o) { return std::pair(o->invoke_ns, o->client); });
    std::map<std::int32_t, std::size_t> lanes;
    for (const Operation* o : chosen) lanes.emplace(o->client, 0);
    for (auto& [client, lane] : lanes) {
      lane = out_.lanes.size();
      out_.lanes.push_back(lane_name(s_.plan.deploy, client));
    }
    for (const Operation* o : chosen) {
      auto key = static_cast<std::size_t>(std::ranges::find(out_.keys, o->key) - out_.keys.begin());
      if (key == out_.keys.size()) out_.keys.push_back(o->key);
      out_.operations.push_back({o, label_of(*o, key), lanes[o->client], key, contradicts(*o)});
    }
  }

  void add_failure(const std::string& name, std::string label, Nanos at, Nanos until) {
    const auto place = std::ranges::find(out_.nodes, name) - out_.nodes.begin();
    if (static_cast<std::size_t>(place) == out_.nodes.size()) out_.nodes.push_back(name);
    out_.failures.push_back({std::move(label), static_cast<std::size_t>(place), at, until});
  }

  void choose_failures() {
    for (const fabric::sim::ScheduledFault& f : s_.sim.faults.schedule) {
      std::string label(fabric::sim::name(f.kind));
      if (f.kind == fabric::sim::ScheduledFault::Kind::kill) label += fmt::format(" of worker {}", f.worker);
      if (f.kind == fabric::sim::ScheduledFault::Kind::one_way) label += fmt::format(" to n{}", f.peer);
      if (f.span > 0) label += " for " + format_duration(f.span);
      add_failure(fmt::format("node n{}", f.node), std::move(label), f.at, f.at + f.span);
    }
    if (!s_.plan.load.failures) return;
    for (const workloads::FailurePlan::Repair& repair : s_.plan.load.failures->repairs) {
      for (const kv::ClientId& dead : repair.dead)
        add_failure("repairs", fmt::format("scrub of n{}.{}", dead.node, dead.worker), repair.at, repair.at);
      for (const fabric::NodeId node : repair.lost)
        add_failure("repairs", fmt::format("n{} declared lost", node), repair.at, repair.at);
    }
  }

  // Assigns x coordinates to all times in order. The gap between two times grows with the logarithm of their
  // distance and with the width of the labels that need room there.
  void place() {
    std::map<Nanos, double> need;  // the smallest x at which each time may be drawn
    for (const DrawnOperation& o : out_.operations) {
      need[o.operation->invoke_ns];
      if (o.operation->return_ns) need[*o.operation->return_ns];
    }
    const Nanos last = need.empty() ? 0 : need.rbegin()->first;
    for (const DrawnFailure& f : out_.failures) {
      need[f.at];
      // A failure that lasts beyond the last operation is drawn without an end.
      if (f.until <= last) need[f.until];
    }
    std::vector<double> lane_end(out_.lanes.size(), 0), node_end(out_.nodes.size(), 0);
    std::vector<DrawnFailure*> failures;
    for (DrawnFailure& f : out_.failures) failures.push_back(&f);
    std::ranges::sort(failures, {}, &DrawnFailure::at);
    double x = 0;
    Nanos before = need.empty() ? 0 : need.begin()->first;
    auto operation = out_.operations.begin();
    auto failure = failures.begin();
    for (auto& [at, place] : need) {
      if (at > before) x += 8 + 9 * std::log2(1 + static_cast<double>(at - before) / 200);
      before = at;
      auto end = operation;
      for (; end != out_.operations.end() && end->operation->invoke_ns == at; ++end)
        x = std::max(x, lane_end[end->lane]);
      auto last_failure = failure;
      for (; last_failure != failures.end() && (*last_failure)->at == at; ++last_failure)
        x = std::max(x, node_end[(*last_failure)->node]);
      for (; operation != end; ++operation)
        lane_end[operation->lane] = x + letter_width * static_cast<double>(operation->label.size()) + gap;
      for (; failure != last_failure; ++failure) {
        double& node = node_end[(*failure)->node];
        node = std::max(node, x) + letter_width * static_cast<double>((*failure)->label.size()) + gap;
      }
      place = x;
    }
    out_.width = x;
    for (const double end : lane_end) out_.width = std::max(out_.width, end);
    for (const double end : node_end) out_.width = std::max(out_.width, end);
    for (DrawnOperation& o : out_.operations) {
      o.from = need[o.operation->invoke_ns];
      o.to = o.operation->return_ns ? need[*o.operation->return_ns] : out_.width;
    }
    for (DrawnFailure& f : out_.failures) {
      f.from = need[f.at];
      f.to = need.contains(f.until) ? need[f.until] : out_.width;
    }
    out_.ticks = std::move(need);
  }

  const FuzzScenario& s_;
  const std::vector<Operation>& history_;
  const std::vector<Operation>& sub_;
  Layout out_;
};

}  // namespace

std::string key_letter(std::size_t key) {
  if (key < 26) return std::string(1, static_cast<char>('A' + key));
  return fmt::format("K{}", key + 1);
}

Layout lay_out(const FuzzScenario& scenario, const std::vector<Operation>& history,
               const std::vector<Operation>& sub_history) {
  return Layouter(scenario, history, sub_history).run();
}

}  // namespace loch::fuzz
