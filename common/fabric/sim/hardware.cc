// Reads a hardware profile and checks that each constant is there, in its unit and limits, with its source;
// and changes constants of a profile that was read.
#include "common/fabric/sim/hardware.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

namespace loch::fabric::sim {
namespace {

using Place = HardwareField::Place;
#define LOCH_FIELD(section, member, key, unit, least, most)                                         \
  HardwareField {                                                                                   \
    #section, key, unit, [](HardwareProfile& p) -> Place { return &p.section.member; }, least, most \
  }
HardwareField also(const char* alias, HardwareField field) {
  field.alias = alias;
  return field;
}

HardwareField once_in(const char* former_unit, HardwareField field) {
  field.former_unit = former_unit;
  return field;
}

// The values of link.format and nic.post_by_mmio, in the order of the enumerations.
constexpr std::array format_names = {"infiniband", "roce-v1", "roce-v2"};
constexpr std::array posting_names = {"no", "libmlx4", "any"};
// Profiles of before there were rules say that single work requests are written by MMIO.
constexpr std::string_view any_alone = "yes";

std::size_t index_in(const auto& names, std::string_view value) {
  return static_cast<std::size_t>(std::ranges::find(names, value) - names.begin());
}

std::vector<HardwareField> make_fields() {
  return {
      LOCH_FIELD(nic, request_read_ns, "request_read", "ns", 0, 1e6),
      LOCH_FIELD(nic, request_write_ns, "request_write", "ns", 0, 1e6),
      LOCH_FIELD(nic, request_send_ns, "request_send", "ns", 0, 1e6),
      LOCH_FIELD(nic, request_ud_ns, "request_ud", "ns", 0, 1e6),
      LOCH_FIELD(nic, request_atomic_ns, "request_atomic", "ns", 0, 1e6),
      LOCH_FIELD(nic, request_line_ns, "request_line", "ns", 0, 1e6),
      LOCH_FIELD(nic, queue_pair_ns, "queue_pair", "ns", 0, 1e6),
      LOCH_FIELD(nic, respond_read_ns, "respond_read", "ns", 0, 1e6),
      LOCH_FIELD(nic, respond_write_ns, "respond_write", "ns", 0, 1e6),
      LOCH_FIELD(nic, respond_recv_ns, "respond_recv", "ns", 0, 1e6),
      LOCH_FIELD(nic, respond_atomic_ns, "respond_atomic", "ns", 0, 1e6),
      LOCH_FIELD(nic, response_ns, "response", "ns", 0, 1e6),
      LOCH_FIELD(nic, respond_byte_ns, "respond_byte", "ns/B", 0, 100),
      LOCH_FIELD(nic, payload_ns, "payload", "ns", 0, 1e6),
      LOCH_FIELD(nic, inline_receive_bytes, "inline_receive", "B", 0, 64),
      also("inline_receive_gap", LOCH_FIELD(nic, inline_receive_ns, "inline_receive_pace", "ns", 0, 1e6)),
      LOCH_FIELD(nic, pipeline_ns, "pipeline", "ns", 0, 1e6),
      LOCH_FIELD(nic, is_transmit_shared, "transmit_shared", "yes/no", 0, 1),
      LOCH_FIELD(nic, transmit_units, "transmit_units", "1", 1, 256),
      LOCH_FIELD(nic, context_stall_ns, "context_stall", "ns", 0, 1e6),
      LOCH_FIELD(nic, segment_bytes, "segment", "B", 0, 65536),
      LOCH_FIELD(nic, segment_ns, "segment_pace", "ns", 0, 1e6),
      LOCH_FIELD(nic, atomic_buckets, "atomic_buckets", "1", 1, 65536),
      LOCH_FIELD(nic, atomic_hold_ns, "atomic_hold", "ns", 0, 1e6),
      LOCH_FIELD(nic, atomic_hold_memory_ns, "atomic_hold_memory", "ns", 0, 1e6),
      LOCH_FIELD(nic, atomic_places, "atomic_places", "1", 0, 1024),
      LOCH_FIELD(nic, receive_stall_ns, "receive_stall", "ns", 0, 1e6),
      LOCH_FIELD(nic, queue_pair_entries, "queue_pair_entries", "1", 0, 1e7),
      LOCH_FIELD(nic, translation_entries, "translation_entries", "1", 0, 1e7),
      LOCH_FIELD(nic, work_request_entries, "work_request_entries", "1", 0, 1e7),
      LOCH_FIELD(nic, crowded.posted_entries, "posted_entries", "1", 0, 1e7),
      LOCH_FIELD(nic, crowded.posted_ramp, "posted_ramp", "1", 0, 1e7),
      LOCH_FIELD(nic, crowded.posted_read_ns, "posted_read", "ns", 0, 1e6),
      LOCH_FIELD(nic, crowded.posted_write_ns, "posted_write", "ns", 0, 1e6),
      LOCH_FIELD(nic, crowded.answer_entries, "answer_entries", "1", 0, 1e7),
      LOCH_FIELD(nic, crowded.answer_ramp, "answer_ramp", "1", 0, 1e7),
      LOCH_FIELD(nic, crowded.answer_miss_ns, "answer_miss", "ns", 0, 1e6),
      LOCH_FIELD(nic, crowded.queue_pair_latency_ns, "queue_pair_latency", "ns", 0, 1e3),
      LOCH_FIELD(nic, crowded.busy_fetch_ns, "busy_fetch", "ns", 0, 1e5),
      LOCH_FIELD(nic, crowded.private_doorbells, "private_doorbells", "1", 0, 4096),
      LOCH_FIELD(nic, crowded.shared_doorbells, "shared_doorbells", "1", 0, 4096),
      LOCH_FIELD(nic, crowded.own_doorbells, "own_doorbells", "1", 0, 4096),
      LOCH_FIELD(nic, crowded.doorbell_again_ns, "doorbell_again", "ns", 0, 1e5),
      LOCH_FIELD(nic, crowded.doorbell_take_ns, "doorbell_take", "ns", 0, 1e5),
      LOCH_FIELD(nic, crowded.doorbell_pass_ns, "doorbell_pass", "ns", 0, 1e5),
      LOCH_FIELD(nic, crowded.doorbell_exponent, "doorbell_exponent", "1", 0, 4),
      LOCH_FIELD(nic, page_bytes, "page", "B", 4096, 1 << 30),
      LOCH_FIELD(nic, outstanding_fetches, "outstanding_fetches", "1", 1, 1024),
      LOCH_FIELD(nic, max_rd_atomic, "max_rd_atomic", "1", 1, 255),
      LOCH_FIELD(nic, max_inline_bytes, "max_inline", "B", 0, 1024),
      LOCH_FIELD(nic, send_queue_depth, "send_queue_depth", "1", 16, 65536),
      LOCH_FIELD(nic, recv_queue_depth, "recv_queue_depth", "1", 16, 65536),
      once_in("yes/no", LOCH_FIELD(nic, posting, "post_by_mmio", "driver", 0, 0)),
      LOCH_FIELD(nic, blueflame_bytes, "blueflame_buffer", "B", 64, 4096),
      LOCH_FIELD(nic, is_in_order_placement, "in_order_placement", "yes/no", 0, 1),
      LOCH_FIELD(nic, retry_timeout_ns, "retry_timeout", "ns", 1000, 1e10),
      LOCH_FIELD(nic, retry_count, "retry_count", "1", 0, 7),
      LOCH_FIELD(nic, rnr_retry_count, "rnr_retry_count", "1", 0, 7),
      LOCH_FIELD(nic, rnr_timer_ns, "rnr_timer", "ns", 1000, 1e9),
      LOCH_FIELD(pcie, gbytes_s, "bandwidth", "GB/s", 0.1, 1000),
      LOCH_FIELD(pcie, read_ns, "read", "ns", 0, 1e5),
      LOCH_FIELD(pcie, write_ns, "write", "ns", 0, 1e5),
      LOCH_FIELD(pcie, mmio_ns, "mmio", "ns", 0, 1e5),
      LOCH_FIELD(pcie, read_header_bytes, "read_header", "B", 0, 128),
      LOCH_FIELD(pcie, data_header_bytes, "data_header", "B", 0, 128),
      LOCH_FIELD(pcie, link_layer_bytes, "link_layer", "B", 0, 64),
      LOCH_FIELD(pcie, packet_bytes, "packet", "B", 64, 4096),
      LOCH_FIELD(pcie, completion_bytes, "completion", "B", 16, 128),
      LOCH_FIELD(pcie, completion_boundary_bytes, "completion_boundary", "B", 0, 4096),
      LOCH_FIELD(link, format, "format", "format", 0, 0),
      LOCH_FIELD(link, gbits_s, "bandwidth", "Gb/s", 0.1, 10000),
      LOCH_FIELD(link, mtu_bytes, "mtu", "B", 256, 4096),
      LOCH_FIELD(link, framing_bytes, "framing", "B", 0, 128),
      LOCH_FIELD(link, switch_ns, "switch", "ns", 0, 1e5),
      LOCH_FIELD(link, cable_ns, "cable", "ns", 0, 1e5),
      LOCH_FIELD(link, port_buffer_bytes, "port_buffer", "B", 0, 1e9),
      LOCH_FIELD(link, xon_offset_bytes, "xon_offset", "B", 0, 1e9),
      LOCH_FIELD(link, pause_delay_ns, "pause_delay", "ns", 0, 1e6),
      LOCH_FIELD(cpu, cores, "cores", "1", 1, most_cores),
      LOCH_FIELD(cpu, sockets, "sockets", "1", 1, 8),
      LOCH_FIELD(cpu, physical_cores, "physical_cores", "1", 0, most_cores),
      LOCH_FIELD(cpu, last_level_cache_bytes, "last_level_cache", "B", 0, 1e12),
      LOCH_FIELD(cpu, shared_growth, "shared_growth", "1", 0, 10),
      LOCH_FIELD(cpu, sibling_growth, "sibling_growth", "1", 0, 10),
      LOCH_FIELD(cpu, post_ns, "post", "ns", 0, 1e5),
      LOCH_FIELD(cpu, post_recv_ns, "post_recv", "ns", 0, 1e5),
      LOCH_FIELD(cpu, doorbell_ns, "doorbell", "ns", 0, 1e5),
      LOCH_FIELD(cpu, write_combine_ns, "write_combine", "ns", 0, 1e5),
      LOCH_FIELD(cpu, poll_ns, "poll", "ns", 0, 1e5),
      LOCH_FIELD(cpu, completion_ns, "completion", "ns", 0, 1e5),
      LOCH_FIELD(cpu, hash_fixed_ns, "hash", "ns", 0, 1e5),
      LOCH_FIELD(cpu, hash_byte_ns, "hash_byte", "ns/B", 0, 100),
      LOCH_FIELD(cpu, compare_fixed_ns, "compare", "ns", 0, 1e5),
      LOCH_FIELD(cpu, compare_byte_ns, "compare_byte", "ns/B", 0, 100),
      LOCH_FIELD(cpu, copy_fixed_ns, "copy", "ns", 0, 1e5),
      LOCH_FIELD(cpu, copy_byte_ns, "copy_byte", "ns/B", 0, 100),
      LOCH_FIELD(cpu, crc_byte_ns, "crc_byte", "ns/B", 0, 100),
      LOCH_FIELD(cpu, memory_ns, "memory", "ns", 0, 1e5),
      LOCH_FIELD(cpu, line_ns, "line", "ns", 0, 1e5),
      LOCH_FIELD(cpu, operation_ns, "operation", "ns", 0, 1e6),
      also("background_hash", LOCH_FIELD(cpu, background_hash_ns, "hog_hash", "ns", 1, 1e9)),
      LOCH_FIELD(scheduler, tick_ms, "tick", "ms", 0.1, 100),
      LOCH_FIELD(scheduler, latency_ms, "latency", "ms", 0.1, 1000),
      LOCH_FIELD(scheduler, minimum_granularity_ms, "minimum_granularity", "ms", 0.01, 1000),
      LOCH_FIELD(scheduler, wakeup_granularity_ms, "wakeup_granularity", "ms", 0, 1000),
      LOCH_FIELD(scheduler, sleeper_credit_ms, "sleeper_credit", "ms", 0, 1000),
      LOCH_FIELD(scheduler, migration_cost_ms, "migration_cost", "ms", 0, 1000),
      LOCH_FIELD(scheduler, imbalance_percent, "imbalance", "%", 100, 1000),
      LOCH_FIELD(scheduler, balance_idle_ms, "balance_idle", "ms", 0.1, 1e4),
      LOCH_FIELD(scheduler, balance_idle_most_ms, "balance_idle_most", "ms", 0.1, 1e4),
      LOCH_FIELD(scheduler, balance_busy_ms, "balance_busy", "ms", 0.1, 1e4),
      LOCH_FIELD(scheduler, max_pull, "max_pull", "1", 1, 1000),
      LOCH_FIELD(scheduler, wakeup_us, "wakeup", "us", 0, 1e4),
      LOCH_FIELD(scheduler, context_switch_us, "context_switch", "us", 0, 1e3),
      LOCH_FIELD(power, idle_w, "idle", "W", 0, 1e5),
      LOCH_FIELD(power, core_busy_w, "core_busy", "W", 0, 1e3),
      LOCH_FIELD(power, core_wake_j, "core_wake", "J", 0, 1),
      LOCH_FIELD(power, package_active_w, "package_active", "W", 0, 1e3),
      LOCH_FIELD(power, package_sleep_us, "package_sleep", "us", 0, 1e6),
      LOCH_FIELD(power, nic_byte_nj, "nic_byte", "nJ", 0, 1e3),
      LOCH_FIELD(power, nic_busy_w, "nic_busy", "W", 0, 1e3),
  };
}
#undef LOCH_FIELD

std::string at(const std::string& path, const YAML::Node& node) {
  return fmt::format("{}:{}", path, node.Mark().line + 1);
}

Result<> wrong(const std::string& path, const YAML::Node& node, std::string what) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", at(path, node), std::move(what)));
}

settings::Setting setting_of(const HardwareField& field) {
  HardwareProfile profile;
  const Place place = field.place(profile);
  settings::Setting setting{.key = fmt::format("{}.{}", field.section, field.key),
                            .initial = "",
                            .help = "",
                            .choices = {},
                            .minimum = field.least,
                            .maximum = field.most};
  if (*field.alias != '\0') setting.aliases = {fmt::format("{}.{}", field.section, field.alias)};
  if (std::holds_alternative<LinkFormat*>(place)) {
    setting.type = settings::Type::choice;
    setting.choices.assign(format_names.begin(), format_names.end());
  } else if (std::holds_alternative<Posting*>(place)) {
    setting.type = settings::Type::choice;
    setting.choices.assign(posting_names.begin(), posting_names.end());
  } else if (std::holds_alternative<bool*>(place)) {
    setting.type = settings::Type::choice;
    setting.choices = {"no", "yes"};
  } else {
    setting.type = std::holds_alternative<double*>(place) ? settings::Type::real : settings::Type::integer;
    if (std::string_view(field.unit) != "1") setting.unit = field.unit;
  }
  return setting;
}

// Stores one value in its variable, or returns an error that says what was expected.
Result<> set(const HardwareField& field, std::string value, HardwareProfile* profile) {
  const settings::Setting setting = setting_of(field);
  const Place place = field.place(*profile);
  if (std::holds_alternative<Posting*>(place) && value == any_alone) value = posting_names.back();
  const auto parsed = settings::parse(setting, value);
  if (!parsed) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: expected {}, not {}", setting.key, settings::expected(setting), value));
  }
  if (LinkFormat* const* format = std::get_if<LinkFormat*>(&place)) {
    **format = static_cast<LinkFormat>(index_in(format_names, value));
  } else if (Posting* const* posting = std::get_if<Posting*>(&place)) {
    **posting = static_cast<Posting>(index_in(posting_names, value));
  } else if (bool* const* flag = std::get_if<bool*>(&place)) {
    **flag = value == "yes";
  } else if (double* const* real = std::get_if<double*>(&place)) {
    **real = std::get<double>(*parsed);
  } else if (std::uint32_t* const* count = std::get_if<std::uint32_t*>(&place)) {
    **count = static_cast<std::uint32_t>(std::get<std::int64_t>(*parsed));
  } else {
    **std::get_if<std::uint64_t*>(&place) = static_cast<std::uint64_t>(std::get<std::int64_t>(*parsed));
  }
  return {};
}

Result<> read_value(const HardwareField& field, const YAML::Node& value, HardwareProfile* profile,
                    const std::string& path) {
  const settings::Setting setting = setting_of(field);
  if (!value.IsScalar())
    return wrong(path, value, fmt::format("{}: expected {}", setting.key, settings::expected(setting)));
  const Result<> stored = set(field, value.Scalar(), profile);
  return stored ? stored : wrong(path, value, stored.error().message);
}

// A constant's value as a number; nullopt for those that are none (yes/no, the format of packets).
std::optional<double> number(const HardwareField& field, HardwareProfile& profile) {
  const Place place = field.place(profile);
  if (double* const* real = std::get_if<double*>(&place)) return **real;
  if (std::uint32_t* const* count = std::get_if<std::uint32_t*>(&place)) return **count;
  if (std::uint64_t* const* count = std::get_if<std::uint64_t*>(&place)) return static_cast<double>(**count);
  return std::nullopt;
}

const HardwareField* find_field(std::string_view section, std::string_view key) {
  for (const HardwareField& field : hardware_fields()) {
    if (section == field.section && (key == field.key || key == field.alias)) return &field;
  }
  return nullptr;
}

std::string keys_of(std::string_view section) {
  std::string text;
  for (const HardwareField& field : hardware_fields()) {
    if (section == field.section) text += (text.empty() ? "" : ", ") + std::string(field.key);
  }
  return text;
}

// Reads a constant's range, if its entry has one: `low: 30, high: 45`, and `log: yes` if it is to be drawn
// evenly in the logarithm.
Result<> read_range(const HardwareField& field, const YAML::Node& entry, HardwareProfile* profile,
                    const std::string& path) {
  const std::string key = fmt::format("{}.{}", field.section, field.key);
  if (!entry["low"] && !entry["high"]) {
    for (const char* name : {"log", "range_source"}) {
      if (entry[name]) return wrong(path, entry[name], fmt::format("{}: {} without low and high", key, name));
    }
    return {};
  }
  if (!entry["low"] || !entry["high"])
    return wrong(path, entry, fmt::format("{}: expected low and high, not one of them", key));
  const std::optional<double> value = number(field, *profile);
  if (!value) return wrong(path, entry["low"], fmt::format("{}: only a number has a range", key));
  HardwareRange range;
  for (const auto& [name, place] : {std::pair{"low", &range.low}, std::pair{"high", &range.high}}) {
    HardwareProfile trial;
    LOCH_TRY(read_value(field, entry[name], &trial, path));
    *place = *number(field, trial);
  }
  if (range.low > *value || range.high < *value) {
    return wrong(path, entry["low"],
                 fmt::format("{}: expected low <= value <= high, not {}, {}, {}", key, entry["low"].Scalar(),
                             entry["value"].Scalar(), entry["high"].Scalar()));
  }
  if (entry["log"]) {
    const std::string log = entry["log"].IsScalar() ? entry["log"].Scalar() : "";
    range.is_log = log == "yes" || log == "true";
    if (!range.is_log && log != "no" && log != "false")
      return wrong(path, entry["log"], fmt::format("{}.log: expected yes or no", key));
    if (range.is_log && range.low <= 0)
      return wrong(path, entry["low"], fmt::format("{}.log: expected a low above 0", key));
  }
  if (entry["range_source"]) {
    if (!entry["range_source"].IsScalar() || entry["range_source"].Scalar().empty())
      return wrong(path, entry["range_source"], fmt::format("{}: expected where the range comes from", key));
    range.source = entry["range_source"].Scalar();
  }
  profile->ranges[key] = range;
  return {};
}

// Reads one constant: `key: {value: 38, unit: ns, source: "…"}`, with low and high if its range is known.
Result<> read_constant(const std::string& section, const std::string& key, const YAML::Node& entry,
                       HardwareProfile* profile, const std::string& path) {
  const HardwareField* field = find_field(section, key);
  if (field == nullptr) {
    return wrong(path, entry,
                 fmt::format("{}.{} is not a constant; expected one of {}", section, key, keys_of(section)));
  }
  if (entry.IsMap() && !entry["source"] && (entry["low"] || entry["high"])) {
    return wrong(
        path, entry,
        fmt::format("{}.{}: a range without a source; expected source: where value and range come from",
                    section, key));
  }
  if (!entry.IsMap() || !entry["value"] || !entry["unit"] || !entry["source"]) {
    return wrong(path, entry,
                 fmt::format("{}.{}: expected {{value: …, unit: {}, source: …}}", section, key, field->unit));
  }
  for (const auto& item : entry) {
    const std::string name = item.first.Scalar();
    static const std::set<std::string> known = {"value", "unit", "source",      "low",
                                                "high",  "log",  "range_source"};
    if (!known.contains(name)) {
      return wrong(
          path, item.first,
          fmt::format("{}.{}: unknown key {}; expected value, unit, source, low, high, log or range_source",
                      section, key, name));
    }
  }
  if (!entry["unit"].IsScalar() ||
      (entry["unit"].Scalar() != field->unit &&
       (*field->former_unit == '\0' || entry["unit"].Scalar() != field->former_unit))) {
    return wrong(path, entry["unit"], fmt::format("{}.{}: expected the unit {}", section, key, field->unit));
  }
  if (!entry["source"].IsScalar() || entry["source"].Scalar().empty()) {
    return wrong(path, entry["source"],
                 fmt::format("{}.{}: expected where the constant comes from", section, key));
  }
  std::string& from = profile->sources[fmt::format("{}.{}", section, field->key)];
  if (!from.empty()) return wrong(path, entry, fmt::format("{}.{}: given twice", section, key));
  from = entry["source"].Scalar();
  LOCH_TRY(read_value(*field, entry["value"], profile, path));
  return read_range(*field, entry, profile, path);
}

// Checks that the profile has every constant that a simulation needs.
Result<> require(const HardwareProfile& profile, const std::string& path) {
  for (const char* key : {"nic.request_read", "nic.request_write", "nic.respond_read", "nic.respond_write",
                          "nic.pipeline", "nic.retry_timeout", "pcie.bandwidth", "pcie.read", "pcie.write",
                          "link.format", "link.bandwidth", "link.mtu", "cpu.cores", "cpu.post", "cpu.poll"}) {
    if (!profile.sources.contains(key)) {
      return fail(ErrorCode::invalid_argument, fmt::format("{}: {} is missing", path, key));
    }
  }
  if (!std::has_single_bit(profile.nic.atomic_buckets)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: nic.atomic_buckets: expected a power of two, not {}", path,
                            profile.nic.atomic_buckets));
  }
  return {};
}

Result<HardwareProfile> read_profile(const YAML::Node& root, const std::string& path) {
  HardwareProfile profile;
  if (!root.IsMap())
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: expected a mapping of name, description and sections", path));
  std::set<std::string> seen;
  for (const auto& item : root) {
    const std::string section = item.first.Scalar();
    if (!seen.insert(section).second)
      LOCH_TRY(wrong(path, item.first, fmt::format("{}: given twice", section)));
    if (section == "name" || section == "description") {
      if (!item.second.IsScalar())
        LOCH_TRY(wrong(path, item.second, fmt::format("{}: expected text", section)));
      (section == "name" ? profile.name : profile.description) = item.second.Scalar();
      continue;
    }
    if (keys_of(section).empty()) {
      LOCH_TRY(wrong(path, item.first,
                     fmt::format("unknown section {}; expected name, description, nic, pcie, link, cpu, "
                                 "scheduler or power",
                                 section)));
    }
    if (!item.second.IsMap())
      LOCH_TRY(wrong(path, item.second, fmt::format("{}: expected a mapping", section)));
    for (const auto& entry : item.second) {
      LOCH_TRY(read_constant(section, entry.first.Scalar(), entry.second, &profile, path));
    }
  }
  if (profile.name.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("{}: name is missing", path));
  LOCH_TRY(require(profile, path));
  return profile;
}

}  // namespace

const std::vector<HardwareField>& hardware_fields() {
  static const std::vector<HardwareField> fields = make_fields();
  return fields;
}

std::vector<settings::Setting> hardware_settings() {
  std::vector<settings::Setting> out;
  for (const HardwareField& field : hardware_fields()) out.push_back(setting_of(field));
  return out;
}

bool is_whole(const HardwareField& field) { return setting_of(field).type == settings::Type::integer; }

std::string constant_text(const HardwareField& field, const HardwareProfile& profile) {
  HardwareProfile copy = profile;
  const Place place = field.place(copy);
  if (LinkFormat* const* format = std::get_if<LinkFormat*>(&place))
    return format_names[static_cast<std::size_t>(**format)];
  if (Posting* const* posting = std::get_if<Posting*>(&place))
    return posting_names[static_cast<std::size_t>(**posting)];
  if (bool* const* flag = std::get_if<bool*>(&place)) return **flag ? "yes" : "no";
  return fmt::format("{}", *number(field, copy));
}

Result<> change_constants(std::string_view changes, HardwareProfile& profile) {
  std::set<std::string> seen;
  while (!changes.empty()) {
    const std::string_view change = changes.substr(0, changes.find(','));
    changes.remove_prefix(std::min(changes.size(), change.size() + 1));
    const auto equals = change.find('=');
    const std::string key(change.substr(0, equals));
    if (equals == std::string_view::npos || equals + 1 == change.size())
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}: expected KEY=VALUE such as nic.pipeline=120", change));
    const auto dot = key.find('.');
    const HardwareField* field =
        dot == std::string::npos ? nullptr : find_field(key.substr(0, dot), key.substr(dot + 1));
    if (field == nullptr)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}: no constant of a hardware profile; loch-bench describe lists them", key));
    if (!seen.insert(fmt::format("{}.{}", field->section, field->key)).second)
      return fail(ErrorCode::invalid_argument, fmt::format("{}: given twice", key));
    LOCH_TRY(set(*field, std::string(change.substr(equals + 1)), &profile));
  }
  return require(profile, profile.name);
}

std::filesystem::path profiles_folder() {
  const char* home = std::getenv("LOCH_HOME");
  const std::filesystem::path root = home != nullptr && *home != '\0' ? home : LOCH_SOURCE_DIR;
  return root / "experiments" / "hardware";
}

std::vector<std::string> list_hardware() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(profiles_folder(), error)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<HardwareProfile> load_hardware(std::string_view name_or_file) {
  std::filesystem::path path(name_or_file);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    path = profiles_folder() / fmt::format("{}.yaml", name_or_file);
    if (!std::filesystem::is_regular_file(path, error)) {
      std::string known;
      for (const std::string& name : list_hardware()) known += (known.empty() ? "" : ", ") + name;
      return fail(ErrorCode::invalid_argument,
                  fmt::format("hardware {}: neither a file nor one of {}", name_or_file,
                              known.empty() ? "the profiles in experiments/hardware" : known));
    }
  }
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) return fail(ErrorCode::invalid_argument, fmt::format("{}: cannot be read", path.string()));
  return parse_hardware(text, path.string());
}

Result<HardwareProfile> parse_hardware(const std::string& text, const std::string& path) {
  try {
    return read_profile(YAML::Load(text), path);
  } catch (const YAML::Exception& problem) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}:{}: not readable as YAML: {}", path, problem.mark.line + 1, problem.msg));
  }
}

}  // namespace loch::fabric::sim
