// Computes what several devices can all do, and the list of capabilities in which they differ.
#include "common/fabric/devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace loch::fabric {

Capabilities least(const Capabilities& one, const Capabilities& other) {
  Capabilities can = one;
  if (other.device != one.device) can.device = fmt::format("{}, {}", one.device, other.device);
  can.rc = one.rc && other.rc;
  can.uc = one.uc && other.uc;
  can.ud = one.ud && other.ud;
  can.receives_connected = one.receives_connected && other.receives_connected;
  can.atomic_scope = std::min(one.atomic_scope, other.atomic_scope);
  can.untorn_bytes = std::min(one.untorn_bytes, other.untorn_bytes);
  can.in_order_placement = one.in_order_placement && other.in_order_placement;
  can.in_order_reads = one.in_order_reads && other.in_order_reads;
  can.order_is_assumed = one.order_is_assumed || other.order_is_assumed;
  can.write_then_read = std::min(one.write_then_read, other.write_then_read);
  can.write_then_atomic = std::min(one.write_then_atomic, other.write_then_atomic);
  can.target_cpu = one.target_cpu || other.target_cpu;
  can.max_rd_atomic = std::min(one.max_rd_atomic, other.max_rd_atomic);
  can.max_inline_bytes = std::min(one.max_inline_bytes, other.max_inline_bytes);
  can.mtu_bytes = std::min(one.mtu_bytes, other.mtu_bytes);
  can.send_queue_depth = std::min(one.send_queue_depth, other.send_queue_depth);
  can.recv_queue_depth = std::min(one.recv_queue_depth, other.recv_queue_depth);
  can.datagram_queue_pairs = std::min(one.datagram_queue_pairs, other.datagram_queue_pairs);
  can.request_lifetime = std::max(one.request_lifetime, other.request_lifetime);
  return can;
}

std::vector<std::string> unlike(std::span<const NodeDevice> devices) {
  constexpr const char* scopes[] = {"none", "nic", "global"};
  const auto yes = [](bool is_so) { return std::string(is_so ? "yes" : "no"); };
  const auto number = [](std::uint32_t value) { return fmt::format("{}", value); };
  using Say = std::function<std::string(const Capabilities&)>;
  const std::pair<const char*, Say> rows[] = {
      {"rc", [&](const auto& can) { return yes(can.rc); }},
      {"uc", [&](const auto& can) { return yes(can.uc); }},
      {"ud", [&](const auto& can) { return yes(can.ud); }},
      {"receives_connected", [&](const auto& can) { return yes(can.receives_connected); }},
      {"atomic_scope", [&](const auto& can) { return scopes[static_cast<std::size_t>(can.atomic_scope)]; }},
      {"in_order_placement", [&](const auto& can) { return yes(can.in_order_placement); }},
      {"in_order_reads", [&](const auto& can) { return yes(can.in_order_reads); }},
      {"write_then_read", [&](const auto& can) { return std::string(name(can.write_then_read)); }},
      {"write_then_atomic", [&](const auto& can) { return std::string(name(can.write_then_atomic)); }},
      {"target_cpu", [&](const auto& can) { return yes(can.target_cpu); }},
      {"max_rd_atomic", [&](const auto& can) { return number(can.max_rd_atomic); }},
      {"max_inline_bytes", [&](const auto& can) { return number(can.max_inline_bytes); }},
      {"mtu_bytes", [&](const auto& can) { return number(can.mtu_bytes); }},
      {"send_queue_depth", [&](const auto& can) { return number(can.send_queue_depth); }},
      {"recv_queue_depth", [&](const auto& can) { return number(can.recv_queue_depth); }},
  };
  std::vector<std::string> lines;
  for (const auto& [name, say] : rows) {
    std::map<std::string, std::vector<std::string>> who;
    for (const NodeDevice& one : devices)
      who[say(one.can)].push_back(fmt::format("{} ({})", one.host, one.can.device));
    if (who.size() < 2) continue;
    std::vector<std::string> parts;
    for (const auto& [value, hosts] : who)
      parts.push_back(fmt::format("{} on {}", value, fmt::join(hosts, ", ")));
    lines.push_back(fmt::format("{}: {}", name, fmt::join(parts, "; ")));
  }
  return lines;
}

}  // namespace loch::fabric
