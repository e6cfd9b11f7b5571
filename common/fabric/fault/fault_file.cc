// Reads --faults files, which are the same for every fabric, and refuses unknown keys, values out of range,
// and faults that the fabric cannot inject.
#include "common/fabric/fault/fault_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace loch::fabric {
namespace {

using settings::Setting;
using settings::Type;

constexpr double many = 1e9;

FaultKey key_of(Type type, const char* key, const char* initial, const char* help, double minimum,
                double maximum) {
  return {.setting = {.key = key,
                      .type = type,
                      .initial = initial,
                      .help = help,
                      .choices = {},
                      .minimum = minimum,
                      .maximum = maximum}};
}
FaultKey probability(const char* key, const char* help) { return key_of(Type::real, key, "0", help, 0, 1); }
FaultKey rate(const char* key, const char* help) { return key_of(Type::real, key, "0", help, 0, many); }
FaultKey span(const char* key, const char* initial, const char* help) {
  return key_of(Type::duration, key, initial, help, 0, 9e18);
}
FaultKey count(const char* key, const char* initial, const char* help, double minimum, double maximum) {
  return key_of(Type::integer, key, initial, help, minimum, maximum);
}
FaultKey anywhere(FaultKey key, std::vector<std::string> former = {}) {
  key.of_decorator = true;
  key.setting.aliases = std::move(former);
  return key;
}
FaultKey also(std::string name, FaultKey key) {
  key.setting.aliases.push_back(std::move(name));
  return key;
}
FaultKey of_decorator_alone(FaultKey key, std::vector<std::string> former = {}) {
  key = anywhere(std::move(key), std::move(former));
  key.of_simulator = false;
  return key;
}

std::vector<FaultKey> make_keys() {
  return {
      probability("torn_read", "probability per READ that its lines are fetched in pieces, in any order"),
      probability("torn_write",
                  "probability per WRITE or SEND that its lines are placed in pieces, in any order"),
      probability("torn_landing", "probability per READ that its data land in pieces at the requester"),
      span("torn_span", "2us", "longest time over which the pieces of a torn transfer are spread"),
      count("torn_chunks", "8", "pieces of a torn transfer, at most", 2, 8),
      key_of(Type::boolean, "split_atomics", "false", "CAS and FAA read and write memory at two instants", 0,
             0),
      span("split_span", "300ns", "longest time between the two instants of a split atomic"),
      probability("late_write", "probability that a WRITE completes before the remote CPU can see it"),
      span("late_write_span", "5us", "longest such delay"),
      probability("overtaking_write",
                  "probability that a WRITE overtakes an earlier READ or atomic, unless fenced"),
      span("overtaking_span", "3us", "by how much it overtakes, at most"),
      anywhere(probability("uc_loss", "probability that a UC WRITE or SEND is lost")),
      of_decorator_alone(
          probability("uc_partial_write", "of lost UC WRITEs: share of which a prefix of lines is placed")),
      anywhere(probability("ud_loss", "probability that a UD SEND is lost")),
      anywhere(probability("ud_reorder", "probability that a UD SEND is overtaken by later ones")),
      anywhere(span("ud_reorder_span", "20us", "how long it is held back, at most"), {"ud_reorder_ns"}),
      of_decorator_alone(probability("delay", "probability that a completion comes late")),
      of_decorator_alone(span("delay_span", "100us", "how late, at most"), {"delay_ns_max"}),
      of_decorator_alone(probability("rc_error", "probability that an RC request ends in retry_exceeded")),
      of_decorator_alone(
          probability("rc_error_executed", "of failed RC requests: share that took effect all the same")),
      probability("rc_loss",
                  "probability that one try of an RC request or its response is lost; the NIC retries"),
      probability("rnr", "probability that a SEND finds no receive buffer at its first try"),
      span("clock_skew", "0ns", "each node's clock is off by up to so much, either way"),
      rate("clock_drift_ppm", "parts per million by which a clock runs off, at most"),
      span("jitter", "0ns", "each poll is late by up to so much"),
      also("stragglers", probability("laggards", "probability that a worker is starved of its core")),
      span("lag", "0ns", "how late such a worker's polls are, at most"),
      probability("interrupted", "probability per computation that its core is taken away in the middle"),
      span("interrupted_span", "5us", "for how long, at most"),
      also("first_straggler",
           count("first_laggard", "0", "a node's workers before this one are never starved", 0, 65535)),
      probability("slow_dma", "probability that a DMA takes longer"),
      span("slow_dma_span", "10us", "how much longer, at most"),
      rate("pause_rate", "drawn pauses per node and second of virtual time"),
      rate("nic_stall_rate", "drawn stalls of the NIC per node and second"),
      rate("cut_rate", "drawn cuts of the link per node and second"),
      rate("kill_rate", "drawn deaths of workers per node and second"),
      rate("crash_rate", "drawn crashes per node and second"),
      span("outage_span", "100us", "longest drawn pause, stall, cut and time until a restart"),
      count("kills", "0", "drawn kills and crashes, at most", 0, 1e6),
      span("heal_at", "0ns", "no fault is drawn after this time; 0: never healed"),
      of_decorator_alone(count("seed", "1", "decides the draws of this file's faults", 0, 9e15)),
  };
}

bool can(const FaultKey& key, FaultSource source) {
  return source == FaultSource::simulator ? key.of_simulator : key.of_decorator;
}

std::string all_names() {
  std::vector<std::string> names = {"schedule"};
  for (const FaultKey& each : fault_keys()) names.push_back(each.setting.key);
  return fmt::format("one of {}", fmt::join(names, ", "));
}

// Adds the unit "ns" to a bare number if `key` is a former name of the setting: fault files that use former
// names give nanoseconds without a unit.
std::string in_the_unit(const Setting& setting, const std::string& key, const std::string& text) {
  const bool is_bare = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return setting.type == Type::duration && key != setting.key && is_bare ? text + "ns" : text;
}

Result<> read_value(const std::string& key, const YAML::Node& item_key, const YAML::Node& node,
                    const std::string& path, FaultSource source, FaultFile& file) {
  const auto found = std::ranges::find_if(fault_keys(), [&](const FaultKey& each) {
    return each.setting.key == key ||
           std::ranges::find(each.setting.aliases, key) != each.setting.aliases.end();
  });
  if (found == fault_keys().end()) return wrong_in_file(path, item_key, key, all_names());
  if (!can(*found, source)) {
    return wrong_in_file(
        path, item_key, key,
        source == FaultSource::decorator
            ? "a fault that can be injected on shm, verbs and ofi: the simulator alone can do this one"
            : "a fault of the simulator: shm and verbs alone inject this one");
  }
  const Setting& setting = found->setting;
  const std::string text = node.IsScalar() ? in_the_unit(setting, key, node.Scalar()) : "";
  const auto value = settings::parse(setting, text);
  if (!value || (setting.type == Type::boolean && text != "true" && text != "false") ||
      (setting.type == Type::duration && std::get<std::int64_t>(*value) < 0)) {
    return wrong_in_file(path, node, key, settings::expected(setting));
  }
  file.values.emplace_back(setting.key, *value);
  return {};
}

}  // namespace

const std::vector<FaultKey>& fault_keys() {
  static const std::vector<FaultKey> keys = make_keys();
  return keys;
}

std::unexpected<Error> wrong_in_file(const std::string& path, const YAML::Node& node, std::string_view key,
                                     std::string_view expected) {
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}:{}: {}: expected {}", path, node.Mark().line + 1, key, expected));
}

Result<> no_key_twice(const YAML::Node& mapping, const std::string& path) {
  std::set<std::string> seen;
  for (const auto& item : mapping) {
    const std::string key = item.first.IsScalar() ? item.first.Scalar() : "";
    if (!seen.insert(key).second)
      return wrong_in_file(path, item.first, key, "each key once; it is there twice");
  }
  return {};
}

namespace {

Result<FaultFile> read_root(const YAML::Node& root, const std::string& path, FaultSource source) {
  FaultFile file;
  if (root.IsNull()) return file;
  if (!root.IsMap()) return wrong_in_file(path, root, "the file", "a mapping of faults by name");
  LOCH_TRY(no_key_twice(root, path));
  for (const auto& item : root) {
    const std::string key = item.first.IsScalar() ? item.first.Scalar() : "";
    if (key != "schedule") {
      LOCH_TRY(read_value(key, item.first, item.second, path, source, file));
      continue;
    }
    if (!item.second.IsSequence()) return wrong_in_file(path, item.second, key, "a list of failures");
    for (const auto& entry : item.second) file.schedule.push_back(entry);
  }
  return file;
}

}  // namespace

Result<FaultFile> read_fault_file(const std::string& text, const std::string& path, FaultSource source) {
  try {
    return read_root(YAML::Load(text), path, source);
  } catch (const YAML::Exception& problem) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}:{}: not readable as YAML: {}", path, problem.mark.line + 1, problem.msg));
  }
}

}  // namespace loch::fabric
