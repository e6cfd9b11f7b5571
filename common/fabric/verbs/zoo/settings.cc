// Parses the environment variable LOCH_ZOO: the name of an emulated machine, and the keys that change its
// properties.
#include "common/fabric/verbs/zoo/settings.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace loch::fabric::verbs::zoo {
namespace {

constexpr std::array<std::string_view, calls_count> call_names = {"ibv_get_device_list",
                                                                  "ibv_open_device",
                                                                  "ibv_query_device",
                                                                  "ibv_query_port",
                                                                  "ibv_query_gid_table",
                                                                  "ibv_query_gid",
                                                                  "ibv_query_pkey",
                                                                  "ibv_alloc_pd",
                                                                  "ibv_reg_mr",
                                                                  "ibv_create_cq",
                                                                  "ibv_create_srq",
                                                                  "ibv_create_qp",
                                                                  "ibv_modify_qp",
                                                                  "ibv_create_ah",
                                                                  "ibv_query_qp_data_in_order",
                                                                  "ibv_post_send",
                                                                  "ibv_post_recv",
                                                                  "ibv_post_srq_recv",
                                                                  "ibv_poll_cq",
                                                                  "ibv_alloc_td",
                                                                  "ibv_alloc_parent_domain",
                                                                  "ibv_create_cq_ex",
                                                                  "ibv_create_qp_ex",
                                                                  "ibv_wr_complete",
                                                                  "request",
                                                                  "completion"};

struct Reason {
  std::string_view name;
  int value;
};
constexpr Reason reasons[] = {{"ENOMEM", ENOMEM}, {"EINVAL", EINVAL},         {"EAGAIN", EAGAIN},
                              {"EIO", EIO},       {"EOPNOTSUPP", EOPNOTSUPP}, {"EACCES", EACCES},
                              {"EPERM", EPERM}};
constexpr Reason statuses[] = {
    {"LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR},     {"LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR},
    {"REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR}, {"REM_OP_ERR", IBV_WC_REM_OP_ERR},
    {"RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR},   {"RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR}};

using Wrong = std::unexpected<std::string>;

std::expected<double, std::string> number(std::string_view key, std::string_view text, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > most)
    return Wrong(std::string(key) + "=" + std::string(text) + ": expected a number from 0 to " +
                 std::to_string(static_cast<std::uint64_t>(most)));
  return value;
}

template <std::size_t size>
int find_reason(const Reason (&among)[size], std::string_view name) {
  for (const Reason& one : among) {
    if (one.name == name) return one.value;
  }
  return -1;
}

struct EventName {
  std::string_view name;
  ibv_event_type type;
};
constexpr EventName event_names[] = {
    {"PORT_ERR", IBV_EVENT_PORT_ERR},         {"PORT_ACTIVE", IBV_EVENT_PORT_ACTIVE},
    {"DEVICE_FATAL", IBV_EVENT_DEVICE_FATAL}, {"QP_FATAL", IBV_EVENT_QP_FATAL},
    {"PATH_MIG_ERR", IBV_EVENT_PATH_MIG_ERR}, {"CQ_ERR", IBV_EVENT_CQ_ERR}};

// Parses the key that makes an emulated device raise an asynchronous event: EVENT:N, after N successful
// requests.
std::expected<Raise, std::string> parse_raise(std::string_view text) {
  Raise raise;
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view rest = text.substr(std::min(colon + 1, text.size()));
  const auto named = std::ranges::find(event_names, text.substr(0, colon), &EventName::name);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), raise.n);
  if (named == std::end(event_names) || error != std::errc{} || end != rest.data() + rest.size() ||
      raise.n == 0)
    return Wrong("raise=" + std::string(text) + ": expected EVENT:N, with N from 1 (docs/zoo.md)");
  raise.type = named->type;
  return raise;
}

// Parses a failure to inject: FUNCTION:N[:ERRNO], request:N[:ERRNO] or completion:N[:STATUS].
std::expected<Failure, std::string> parse_failure(std::string_view text) {
  const auto wrong = [&] {
    return Wrong("fail=" + std::string(text) +
                 ": expected FUNCTION:N[:ERRNO] or completion:N[:STATUS], with N from 1 (docs/zoo.md)");
  };
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return wrong();
  const auto named = std::ranges::find(call_names, text.substr(0, colon));
  if (named == call_names.end()) return wrong();
  Failure failure;
  failure.call = static_cast<Call>(named - call_names.begin());
  const bool is_completion = failure.call == Call::completion;
  failure.reason = is_completion ? static_cast<int>(IBV_WC_RETRY_EXC_ERR) : ENOMEM;
  std::string_view rest = text.substr(colon + 1);
  if (const std::size_t second = rest.find(':'); second != std::string_view::npos) {
    failure.reason = is_completion ? find_reason(statuses, rest.substr(second + 1))
                                   : find_reason(reasons, rest.substr(second + 1));
    rest = rest.substr(0, second);
  }
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), failure.n);
  if (error != std::errc{} || end != rest.data() + rest.size() || failure.n == 0 || failure.reason < 0)
    return wrong();
  return failure;
}

// Parses the value of the key `overtake`, KIND:P: with the probability P a request of this kind overtakes the
// WRITE before it.
std::expected<bool, std::string> set_overtaken(std::span<DeviceModel> devices, std::string_view text) {
  constexpr std::string_view kinds[kinds_count] = {"write", "read", "atomic", "send"};
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto found = std::ranges::find(kinds, text.substr(0, colon));
  if (found == std::end(kinds) || colon == text.size())
    return Wrong("overtake=" + std::string(text) + ": expected write:P, read:P, atomic:P or send:P");
  const auto share = number("overtake", text.substr(colon + 1), 1);
  if (!share) return Wrong(share.error());
  for (DeviceModel& device : devices) device.overtaken[found - std::begin(kinds)] = *share;
  return true;
}

std::expected<bool, std::string> set_scope(std::span<DeviceModel> devices, std::string_view text) {
  constexpr std::string_view names[] = {"none", "nic", "node"};
  const auto found = std::ranges::find(names, text);
  if (found == std::end(names)) return Wrong("scope=" + std::string(text) + ": expected none, nic or node");
  for (DeviceModel& device : devices) device.scope = static_cast<Scope>(found - std::begin(names));
  return true;
}

// Applies a key of LOCH_ZOO that changes a property of the given devices. Returns false if there is no such
// key.
std::expected<bool, std::string> change_devices(std::span<DeviceModel> devices, std::string_view key,
                                                std::string_view text) {
  constexpr double whole = std::numeric_limits<std::int32_t>::max();
  const auto each = [&](double most, auto change) -> std::expected<bool, std::string> {
    const auto value = number(key, text, most);
    if (!value) return Wrong(value.error());
    for (DeviceModel& device : devices) change(device, *value);
    return true;
  };
  using Model = DeviceModel;
  if (key == "inline")
    return each(4096, [](Model& d, double v) { d.max_inline = static_cast<std::uint32_t>(v); });
  if (key == "mtu")
    return each(4096, [](Model& d, double v) {
      d.mtu_bytes = std::bit_floor(std::max(256u, static_cast<std::uint32_t>(v)));
    });
  if (key == "cqe") return each(whole, [](Model& d, double v) { d.max_cqe = static_cast<int>(v); });
  if (key == "qp_wr") return each(whole, [](Model& d, double v) { d.max_qp_wr = static_cast<int>(v); });
  if (key == "srq")
    return each(65536, [](Model& d, double v) {
      d.max_srq = static_cast<int>(v);
      if (d.max_srq == 0) d.max_srq_wr = 0;
    });
  if (key == "rd_atomic") return each(128, [](Model& d, double v) { d.max_rd_atomic = static_cast<int>(v); });
  if (key == "grh") return each(1, [](Model& d, double v) { d.requires_grh = v != 0; });
  if (key == "uc") return each(1, [](Model& d, double v) { d.uc = v != 0; });
  if (key == "ud") return each(1, [](Model& d, double v) { d.ud = v != 0; });
  if (key == "domains") return each(1, [](Model& d, double v) { d.has_domains = v != 0; });
  if (key == "extended") return each(1, [](Model& d, double v) { d.has_extended = v != 0; });
  if (key == "big_endian") return each(1, [](Model& d, double v) { d.reverses_replies = v != 0; });
  if (key == "shuffle") return each(1, [](Model& d, double v) { d.shuffles = v != 0; });
  if (key == "unit" || key == "write_unit")
    return each(4096, [&](Model& d, double v) {
      (key == "unit" ? d.unit : d.write_unit) = std::bit_floor(static_cast<std::uint32_t>(v));
    });
  if (key == "pause_ns")
    return each(1e7, [](Model& d, double v) { d.pause_ns = static_cast<std::uint32_t>(v); });
  if (key == "late_us")
    return each(1e6, [](Model& d, double v) { d.late_us = static_cast<std::uint32_t>(v); });
  if (key == "retransmit") return each(1, [](Model& d, double v) { d.retransmit = v; });
  if (key == "overtake") return set_overtaken(devices, text);
  if (key == "scope") return set_scope(devices, text);
  if (key == "atomics" && text == "global") {
    for (DeviceModel& device : devices) device.atomics = IBV_ATOMIC_GLOB;
    return true;
  }
  if (key == "atomics")
    return each(1, [](Model& d, double v) { d.atomics = v != 0 ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE; });
  if (key == "order") {
    constexpr std::string_view names[] = {"never", "rts", "always"};
    const auto found = std::ranges::find(names, text);
    if (found == std::end(names))
      return Wrong("order=" + std::string(text) + ": expected never, rts or always");
    for (DeviceModel& device : devices) device.in_order = static_cast<InOrder>(found - std::begin(names));
    return true;
  }
  return false;
}

// Gives the machine `count` devices like its first, numbered from 0: the last digit of the name.
std::expected<void, std::string> copy_device(Settings& settings, std::string_view text) {
  const auto count = number("copies", text, 8);
  if (!count) return Wrong(count.error());
  // The names live as long as the process, because programs may keep pointers to them.
  static std::set<std::string> names;
  const DeviceModel first = settings.devices.front();
  std::string name = first.name;
  if (*count < 1 || name.empty() || name.back() != '0')
    return Wrong("copies=" + std::string(text) + ": expected 1 to 8, and a device whose name ends in 0");
  settings.devices.clear();
  for (int i = 0; i < static_cast<int>(*count); ++i) {
    name.back() = static_cast<char>('0' + i);
    settings.devices.push_back(first);
    settings.devices.back().name = names.insert(name).first->c_str();
  }
  return {};
}

// Applies a key to one device of the machine, as in 1:inline=64.
std::expected<void, std::string> apply_to_device(Settings& settings, std::string_view key,
                                                 std::string_view text) {
  const std::size_t colon = key.find(':');
  const auto index = number(key, key.substr(0, colon), static_cast<double>(settings.devices.size()) - 1);
  if (!index) return Wrong(index.error());
  const auto at = static_cast<std::size_t>(*index);
  const std::string_view what = key.substr(colon + 1);
  if (what == "raise") {
    auto raise = parse_raise(text);
    if (!raise) return Wrong(raise.error());
    raise->device = at;
    settings.raises.push_back(*raise);
    return {};
  }
  const auto changed = change_devices({&settings.devices[at], 1}, what, text);
  if (!changed) return Wrong(changed.error());
  if (!*changed) return Wrong(std::string(key) + ": no such key of one device (docs/zoo.md lists them)");
  return {};
}

std::expected<void, std::string> apply(Settings& settings, std::string_view key, std::string_view text) {
  if (key.find(':') != std::string_view::npos) return apply_to_device(settings, key, text);
  if (key == "copies") return copy_device(settings, text);
  const auto set = [&](double most, auto& field, double scale = 1) -> std::expected<void, std::string> {
    const auto value = number(key, text, most);
    if (!value) return Wrong(value.error());
    field = static_cast<std::remove_reference_t<decltype(field)>>(*value * scale);
    return {};
  };
  if (key == "delay_us") return set(1e6, settings.delay_ns, 1000);
  if (key == "reply_late_us") return set(1e6, settings.reply_late_ns, 1000);
  if (key == "counter_start") return set(std::numeric_limits<std::uint32_t>::max(), settings.counter_start);
  if (key == "drop") return set(1, settings.drop);
  if (key == "seed") return set(1e15, settings.seed);
  if (key == "events") return set(1e6, settings.events_per_second);
  if (key == "first_qpn") return set(1 << 23, settings.first_qpn);
  if (key == "net" || key == "calls" || key == "counters") {
    (key == "net" ? settings.net : key == "calls" ? settings.calls : settings.counters) = text;
    return {};
  }
  if (key == "swallow") return set(1e15, settings.swallow);
  if (key == "raise") {
    const auto raise = parse_raise(text);
    if (!raise) return Wrong(raise.error());
    settings.raises.push_back(*raise);
    return {};
  }
  if (key == "fail") {
    const auto failure = parse_failure(text);
    if (!failure) return Wrong(failure.error());
    settings.failures.push_back(*failure);
    return {};
  }
  const auto changed = change_devices(settings.devices, key, text);
  if (!changed) return Wrong(changed.error());
  if (!*changed) return Wrong(std::string(key) + ": no such key (docs/zoo.md lists them)");
  return {};
}

}  // namespace

std::string_view call_name(Call call) { return call_names[static_cast<std::size_t>(call)]; }

std::expected<Settings, std::string> parse_settings(std::string_view text) {
  Settings settings;
  const std::size_t comma = text.find(',');
  const Machine* machine = find_machine(text.substr(0, comma));
  if (machine == nullptr) {
    std::string names;
    for (const Machine& one : machines()) names += (names.empty() ? "" : ", ") + std::string(one.name);
    return Wrong("LOCH_ZOO=" + std::string(text) + ": expected a machine first: " + names);
  }
  settings.machine = machine->name;
  settings.devices.assign(machine->devices.begin(), machine->devices.end());
  std::string_view rest = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos)
      return Wrong("LOCH_ZOO: " + std::string(one) + ": expected KEY=VALUE (docs/zoo.md lists the keys)");
    if (const auto ok = apply(settings, one.substr(0, equals), one.substr(equals + 1)); !ok)
      return Wrong("LOCH_ZOO: " + ok.error());
  }
  return settings;
}

}  // namespace loch::fabric::verbs::zoo
