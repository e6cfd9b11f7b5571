// Reads a faults file: the fields of SimFaults and the schedule of failures.
#include "common/fabric/sim/faults.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <system_error>
#include <variant>

#include "common/base/check.h"
#include "common/fabric/fault/fault_file.h"

namespace loch::fabric::sim {
namespace {

constexpr std::size_t faults_bytes_max = 1 << 20;

// The member of SimFaults that a key of the faults file sets. Names, types and ranges of the keys are in
// fault_keys().
struct FaultField {
  std::string_view key;
  std::variant<double SimFaults::*, Nanos SimFaults::*, bool SimFaults::*, std::uint32_t SimFaults::*> member;
};
constexpr const char* expected_probability = "a probability from 0 to 1";

const FaultField fault_fields[] = {
    {"torn_read", &SimFaults::torn_read},
    {"torn_write", &SimFaults::torn_write},
    {"torn_landing", &SimFaults::torn_landing},
    {"torn_span", &SimFaults::torn_span},
    {"torn_chunks", &SimFaults::torn_chunks},
    {"split_atomics", &SimFaults::split_atomics},
    {"split_span", &SimFaults::split_span},
    {"late_write", &SimFaults::late_write},
    {"late_write_span", &SimFaults::late_write_span},
    {"overtaking_write", &SimFaults::overtaking_write},
    {"overtaking_span", &SimFaults::overtaking_span},
    {"uc_loss", &SimFaults::uc_loss},
    {"ud_loss", &SimFaults::ud_loss},
    {"ud_reorder", &SimFaults::ud_reorder},
    {"ud_reorder_span", &SimFaults::ud_reorder_span},
    {"rc_loss", &SimFaults::rc_loss},
    {"rnr", &SimFaults::rnr},
    {"clock_skew", &SimFaults::clock_skew},
    {"clock_drift_ppm", &SimFaults::clock_drift_ppm},
    {"jitter", &SimFaults::jitter},
    {"laggards", &SimFaults::stragglers},
    {"lag", &SimFaults::lag},
    {"interrupted", &SimFaults::interrupted},
    {"interrupted_span", &SimFaults::interrupted_span},
    {"first_laggard", &SimFaults::first_straggler},
    {"slow_dma", &SimFaults::slow_dma},
    {"slow_dma_span", &SimFaults::slow_dma_span},
    {"pause_rate", &SimFaults::pause_rate},
    {"nic_stall_rate", &SimFaults::nic_stall_rate},
    {"cut_rate", &SimFaults::cut_rate},
    {"kill_rate", &SimFaults::kill_rate},
    {"crash_rate", &SimFaults::crash_rate},
    {"outage_span", &SimFaults::outage_span},
    {"kills", &SimFaults::kills},
    {"heal_at", &SimFaults::heal_at},
};

using Kind = ScheduledFault::Kind;
constexpr std::array all_kinds = {Kind::crash,   Kind::pause, Kind::nic_stall,  Kind::cut,       Kind::kill,
                                  Kind::one_way, Kind::lossy, Kind::no_buffers, Kind::clock_step};

constexpr std::string_view scheduled_shape =
    "{kind: crash|pause|nic_stall|cut|kill|one_way|lossy|no_buffers|clock_step, node: N, at: TIME, span: "
    "TIME, worker: N, peer: N, chance: P, step: TIME}";

// Parses a number of decimal digits only: no hexadecimal number, no leading blank.
Result<double> number(const YAML::Node& node, const std::string& path, const std::string& key,
                      const char* expected, double most) {
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0 && value <= most))
    return wrong_in_file(path, node, key, expected);
  return value;
}

void set_field(const FaultField& field, const settings::Value& value, SimFaults& faults) {
  if (const auto* flag = std::get_if<bool SimFaults::*>(&field.member))
    faults.** flag = std::get<bool>(value);
  else if (const auto* time = std::get_if<Nanos SimFaults::*>(&field.member))
    faults.** time = std::get<std::int64_t>(value);
  else if (const auto* count = std::get_if<std::uint32_t SimFaults::*>(&field.member))
    faults.** count = static_cast<std::uint32_t>(std::get<std::int64_t>(value));
  else
    faults.*std::get<double SimFaults::*>(field.member) = std::get<double>(value);
}

// One item of `schedule`: {kind: crash, node: 3, at: 5ms, span: 1ms}
Result<ScheduledFault> read_scheduled(const YAML::Node& item, const std::string& path) {
  constexpr std::string_view shape = scheduled_shape;
  ScheduledFault fault;
  if (!item.IsMap() || !item["kind"] || !item["node"] || !item["at"])
    return wrong_in_file(path, item, "schedule", shape);
  LOCH_TRY(no_key_twice(item, path));
  for (const auto& entry : item) {
    const std::string key = entry.first.Scalar();
    const std::string text = entry.second.IsScalar() ? entry.second.Scalar() : "";
    if (key == "kind") {
      const auto found = std::ranges::find(all_kinds, text, [](Kind kind) { return name(kind); });
      if (text == "kill_process")
        return wrong_in_file(
            path, entry.second, "schedule.kind",
            "a failure of the simulator, such as kill or crash: shm and verbs alone kill processes");
      if (found == all_kinds.end()) {
        return wrong_in_file(path, entry.second, "schedule.kind",
                             "crash, pause, nic_stall, cut, kill, one_way, lossy, no_buffers or clock_step");
      }
      fault.kind = *found;
    } else if (key == "node" || key == "worker" || key == "peer") {
      LOCH_ASSIGN(const double value,
                  number(entry.second, path, "schedule." + key, "a number from 0 on", 65535));
      (key == "node"   ? fault.node
       : key == "peer" ? fault.peer
                       : fault.worker) = static_cast<std::uint16_t>(value);
    } else if (key == "chance") {
      LOCH_ASSIGN(fault.chance, number(entry.second, path, "schedule.chance", expected_probability, 1));
    } else if (key == "at" || key == "span" || key == "step") {
      auto parsed = parse_duration(text, key);
      if (!parsed) return wrong_in_file(path, entry.second, "schedule." + key, "a duration such as 5ms");
      (key == "at" ? fault.at : key == "span" ? fault.span : fault.step) = *parsed;
    } else {
      return wrong_in_file(path, entry.first, "schedule." + key, shape);
    }
  }
  return fault;
}

Result<SimFaults> read_faults(const std::string& text, const std::string& path) {
  LOCH_ASSIGN(const FaultFile file, read_fault_file(text, path, FaultSource::simulator));
  SimFaults faults;
  for (const auto& [key, value] : file.values) {
    const auto* field = std::ranges::find(fault_fields, key, &FaultField::key);
    LOCH_CHECK(field != std::end(fault_fields), "{} has no place in SimFaults", key);
    set_field(*field, value, faults);
  }
  for (const YAML::Node& entry : file.schedule) {
    LOCH_ASSIGN(const ScheduledFault fault, read_scheduled(entry, path));
    faults.schedule.push_back(fault);
  }
  return faults;
}

}  // namespace

std::string_view name(ScheduledFault::Kind kind) {
  switch (kind) {
    case Kind::crash:
      return "crash";
    case Kind::pause:
      return "pause";
    case Kind::nic_stall:
      return "nic_stall";
    case Kind::cut:
      return "cut";
    case Kind::kill:
      return "kill";
    case Kind::one_way:
      return "one_way";
    case Kind::lossy:
      return "lossy";
    case Kind::no_buffers:
      return "no_buffers";
    case Kind::clock_step:
      return "clock_step";
  }
  return "?";
}

bool SimFaults::any() const {
  return torn_read > 0 || torn_write > 0 || torn_landing > 0 || split_atomics || late_write > 0 ||
         overtaking_write > 0 || uc_loss > 0 || ud_loss > 0 || ud_reorder > 0 || rc_loss > 0 || rnr > 0 ||
         jitter > 0 || stragglers > 0 || interrupted > 0 || slow_dma > 0 || !schedule.empty() ||
         pause_rate > 0 || nic_stall_rate > 0 || cut_rate > 0 || kill_rate > 0 || crash_rate > 0;
}

Result<SimFaults> load_faults(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(faults_bytes_max + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad() || (in.gcount() == 0 && !in.eof()))
    return fail(ErrorCode::invalid_argument, fmt::format("{}: the faults file cannot be read", path));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > faults_bytes_max)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: larger than {} bytes; expected a file of faults", path, faults_bytes_max));
  return parse_faults(text, path);
}

Result<SimFaults> parse_faults(const std::string& text, const std::string& path) {
  try {
    return read_faults(text, path);
  } catch (const YAML::Exception& problem) {  // thrown for a bad entry of the schedule
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}:{}: not readable as YAML: {}", path, problem.mark.line + 1, problem.msg));
  }
}

SimFaults swarm(Rng& rng) {
  SimFaults faults;
  // A random number is drawn even for a fault that will not occur, so that the later draws are the same as if
  // it did.
  const auto maybe = [&rng](double exists, double most) {
    const bool is_on = rng.chance(exists);
    const double rate = most * rng.uniform() * rng.uniform();
    return is_on ? rate : 0.0;
  };
  const auto within = [&rng](Nanos least, Nanos most) {
    return least + static_cast<Nanos>(rng.below(static_cast<std::uint64_t>(most - least)));
  };
  faults.torn_read = maybe(0.5, 1);
  faults.torn_write = maybe(0.5, 1);
  faults.torn_landing = maybe(0.5, 1);
  faults.torn_span = within(100, 5'000);
  faults.split_atomics = rng.chance(0.3);
  faults.late_write = maybe(0.3, 0.5);
  faults.overtaking_write = maybe(0.3, 0.5);
  faults.uc_loss = maybe(0.3, 0.05);
  faults.ud_loss = maybe(0.3, 0.05);
  faults.ud_reorder = maybe(0.3, 0.2);
  faults.rc_loss = maybe(0.15, 0.002);
  faults.rnr = maybe(0.2, 0.05);
  faults.clock_skew = rng.chance(0.5) ? within(0, 100'000) : 0;
  faults.clock_drift_ppm = maybe(0.5, 200);
  faults.jitter = rng.chance(0.7) ? within(10, 2'000) : 0;
  faults.slow_dma = maybe(0.4, 0.2);
  faults.pause_rate = maybe(0.25, 2'000);
  faults.nic_stall_rate = maybe(0.25, 2'000);
  faults.cut_rate = maybe(0.15, 500);
  faults.outage_span = within(1'000, 200'000);
  return faults;
}

}  // namespace loch::fabric::sim
