// Chooses the network that all hosts have in common, and each host's port in it.
#include "common/fabric/verbs/choice.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>

#include "common/base/split.h"

namespace loch::fabric::verbs {
namespace {

// number of bits before the IPv4 address in an IPv4-mapped GID (::ffff:0:0/96)
constexpr std::uint32_t ipv4_bits_before = 96;

// Returns how many leading bits of a GID are its network prefix. If the prefix length of the network
// interface is unknown, /24 is assumed for an IPv4 address and /64 for any other.
std::uint32_t prefix_of(const GidEntry& entry) {
  if (entry.prefix_bits != 0)
    return is_ipv4(entry.gid) ? ipv4_bits_before + entry.prefix_bits : entry.prefix_bits;
  return is_ipv4(entry.gid) ? ipv4_bits_before + 24 : 64;
}

Gid masked(Gid gid, std::uint32_t bits) {
  for (std::uint32_t i = 0; i < gid.size(); ++i) {
    const std::uint32_t kept =
        std::clamp<std::int32_t>(static_cast<std::int32_t>(bits) - 8 * static_cast<std::int32_t>(i), 0, 8);
    gid[i] = static_cast<std::uint8_t>(gid[i] & (0xff00u >> kept));
  }
  return gid;
}

struct Network {
  GidKind kind = GidKind::infiniband;
  Gid subnet{};
  std::uint32_t bits = 0;
  auto operator<=>(const Network&) const = default;
};

std::string_view name(GidKind kind) {
  return kind == GidKind::roce_v2 ? "RoCE v2" : kind == GidKind::roce_v1 ? "RoCE v1" : "InfiniBand";
}

std::string text_of(const Network& network) {
  const std::uint32_t before = is_ipv4(network.subnet) ? ipv4_bits_before : 0;
  return fmt::format("{}, {}/{}", name(network.kind), to_text(network.subnet), network.bits - before);
}

Network network_of(const GidEntry& entry) {
  const std::uint32_t bits = entry.kind == GidKind::infiniband ? 64 : prefix_of(entry);
  return {entry.kind, masked(entry.gid, bits), bits};
}

bool is_private(const Gid& gid) {
  if (!is_ipv4(gid)) return (gid[0] & 0xfe) == 0xfc;  // unique local addresses (fc00::/7) are private
  return gid[12] == 10 || (gid[12] == 172 && (gid[13] & 0xf0) == 16) || (gid[12] == 192 && gid[13] == 168);
}

struct Candidate {
  const PortOffer* port = nullptr;
  std::optional<GidEntry> gid;
  [[nodiscard]] Network network() const {
    return gid ? network_of(*gid) : Network{GidKind::infiniband, {}, 64};
  }
};

// The sort key of a host's candidates (a port with one of its GIDs) within one network. The host uses the
// candidate with the smallest key.
auto rank_in_network(const Candidate& one) {
  return std::tuple(-one.port->gigabits, one.gid && one.gid->is_vlan, one.port->device, one.port->number,
                    one.gid ? one.gid->index : 0);
}

// ---- The option --device -----------------------------------------------------------------------

std::optional<Network> parse_subnet(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string address(text.substr(0, slash));
  std::uint32_t bits = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, bits);
  if (error != std::errc{} || stop != end) return std::nullopt;
  Gid gid{};
  if (inet_pton(AF_INET, address.c_str(), gid.data() + 12) == 1 && bits <= 32) {
    gid[10] = gid[11] = 0xff;
    bits += ipv4_bits_before;
  } else if (inet_pton(AF_INET6, address.c_str(), gid.data()) != 1 || bits > 128) {
    return std::nullopt;
  }
  return Network{GidKind::roce_v2, masked(gid, bits), bits};
}

struct NamedPort {
  std::string device;
  std::uint32_t number = 0;  // 0: any port of the device
};

// What may be used for one rail.
struct Filter {
  std::vector<NamedPort> ports;
  std::vector<Network> subnets;
  [[nodiscard]] bool is_empty() const { return ports.empty() && subnets.empty(); }
  [[nodiscard]] bool takes(const Candidate& one) const {
    if (is_empty()) return true;
    const auto names = [&](const NamedPort& port) {
      return port.device == one.port->device && (port.number == 0 || port.number == one.port->number);
    };
    if (std::ranges::any_of(ports, names)) return true;
    return one.gid && std::ranges::any_of(subnets, [&](const Network& network) {
             return masked(one.gid->gid, network.bits) == network.subnet;
           });
  }
};

Error malformed(const HostOffer& host) {
  return {ErrorCode::invalid_argument,
          fmt::format("--device {}: expected names of devices, NAME:PORT, HOST=NAME, or subnets such as "
                      "10.1.0.0/16, separated by commas, or by + for several rails",
                      host.wish.device)};
}

// Adds to `filter` what one rail of an entry of --device names.
Result<> add_to(Filter& filter, std::string_view what, const HostOffer& host) {
  if (const auto subnet = parse_subnet(what)) {
    filter.subnets.push_back(*subnet);
    return {};
  }
  NamedPort port;
  const std::size_t colon = what.find(':');
  port.device = what.substr(0, colon);
  if (port.device.empty() || what.find('/') != std::string_view::npos)
    return std::unexpected(malformed(host));
  if (colon != std::string_view::npos) {
    const char* end = what.data() + what.size();
    const auto [stop, error] = std::from_chars(what.data() + colon + 1, end, port.number);
    if (error != std::errc{} || stop != end || port.number == 0 || port.number > 255)
      return std::unexpected(malformed(host));
  }
  filter.ports.push_back(std::move(port));
  return {};
}

// Whether the host has a device that the filter names, or the filter names none alone.
bool has_named(const HostOffer& host, const Filter& filter) {
  if (filter.ports.empty() || !filter.subnets.empty()) return true;
  return std::ranges::any_of(filter.ports, [&](const NamedPort& port) {
    return std::ranges::find(host.ports, port.device, &PortOffer::device) != host.ports.end();
  });
}

// Adds an entry of --device, without its host's name, to the filters of the rails.
Result<> add_entry(std::vector<Filter>& rails, std::string_view entry, const HostOffer& host) {
  const std::vector<std::string_view> parts = split(entry, '+');
  if (parts.size() > rails_most)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--device {}: at most {} rails", host.wish.device, rails_most));
  if (!rails.empty() && rails.size() != parts.size())
    return fail(ErrorCode::invalid_argument,
                fmt::format("--device {}: entries with {} and {} rails for {}; expected equally many",
                            host.wish.device, rails.size(), parts.size(), host.host));
  rails.resize(parts.size());
  for (std::size_t rail = 0; rail < parts.size(); ++rail) LOCH_TRY(add_to(rails[rail], parts[rail], host));
  return {};
}

// Returns what the host may use for each of its rails, of which there is at least one.
Result<std::vector<Filter>> filters_of(const HostOffer& host) {
  std::vector<Filter> all, own;
  if (host.wish.device.empty()) return std::vector<Filter>(1);
  for (const std::string_view part : split(host.wish.device, ',')) {
    const std::size_t equals = part.find('=');
    const bool names_host = equals != std::string_view::npos;
    if (names_host && part.substr(0, equals) != host.host) continue;
    LOCH_TRY(add_entry(names_host ? own : all, names_host ? part.substr(equals + 1) : part, host));
  }
  std::vector<Filter>& chosen = own.empty() ? all : own;
  if (chosen.empty()) chosen.resize(1);
  if (std::ranges::all_of(chosen, [&](const Filter& filter) { return has_named(host, filter); }))
    return std::move(chosen);
  std::vector<std::string> names;
  for (const PortOffer& port : host.ports) {
    if (names.empty() || names.back() != port.device) names.push_back(port.device);
  }
  return fail(ErrorCode::invalid_argument, fmt::format("--device {}: no such device on {}; there are: {}",
                                                       host.wish.device, host.host, fmt::join(names, ", ")));
}

// ---- Choice among the ports of one host --------------------------------------------------------

Error no_device() {
  return {ErrorCode::unsupported,
          "verbs: this machine has no RDMA device (./loch doctor says what is missing; ./loch softroce -- "
          "COMMAND runs it where there is one)"};
}

bool is_asked(const GidEntry& gid, const Wish& wish) {
  return wish.gid_index < 0 ? score(gid) != 0 : gid.index == static_cast<std::uint32_t>(wish.gid_index);
}

// The GIDs that a port has instead of the one that was asked for by its index.
std::string other_gids(const PortOffer& port) {
  std::vector<std::uint32_t> indices;
  for (const GidEntry& gid : port.gids) indices.push_back(gid.index);
  return fmt::format("{} port {} has the GIDs {}", port.device, port.number, fmt::join(indices, ", "));
}

Result<std::vector<Candidate>> candidates_of(const HostOffer& host, const Filter& filter) {
  std::vector<Candidate> found;
  std::vector<std::string> refusals, others;
  for (const PortOffer& port : host.ports) {
    const bool is_wanted =
        (host.wish.port == 0 || host.wish.port == port.number) && filter.takes({&port, {}});
    if (!port.refusal.empty()) {
      if (is_wanted || !filter.subnets.empty())
        refusals.push_back(fmt::format("{} port {} {}", port.device, port.number, port.refusal));
      continue;
    }
    if (host.wish.port != 0 && host.wish.port != port.number) {
      if (filter.takes({&port, {}})) others.push_back(fmt::format("{} port {}", port.device, port.number));
      continue;
    }
    const bool has_gid =
        std::ranges::any_of(port.gids, [&](const GidEntry& gid) { return is_asked(gid, host.wish); });
    if (host.wish.gid_index >= 0 && !has_gid && !port.gids.empty() && is_wanted)
      refusals.push_back(other_gids(port));
    for (const GidEntry& gid : port.gids) {
      if (is_asked(gid, host.wish) && filter.takes({&port, gid})) found.push_back({&port, gid});
    }
    if (port.gids.empty() && !port.is_roce && host.wish.gid_index < 0 && is_wanted)
      found.push_back({&port, {}});
    if (port.gids.empty() && port.is_roce && is_wanted)
      refusals.push_back(fmt::format("{} port {} has no GID: give its network interface an IP address",
                                     port.device, port.number));
  }
  if (!found.empty()) return found;
  std::string asked;
  if (!host.wish.device.empty()) asked += fmt::format("--device {} ", host.wish.device);
  if (host.wish.port != 0) asked += fmt::format("--port {} ", host.wish.port);
  if (host.wish.gid_index >= 0) asked += fmt::format("--gid-index {} ", host.wish.gid_index);
  if (!asked.empty()) asked.back() = ':';
  std::string why = "there is none";
  if (!refusals.empty()) {
    why = fmt::format("{}", fmt::join(refusals, "; "));
  } else if (!others.empty()) {
    why = fmt::format("there is {}", fmt::join(others, ", "));
  }
  return fail(asked.empty() ? ErrorCode::unsupported : ErrorCode::invalid_argument,
              fmt::format("{}{}no port of {} can be used: {}", asked.empty() ? "verbs: " : asked,
                          asked.empty() ? "" : " ", host.host, why));
}

const Candidate* best_of(const std::vector<Candidate>& candidates, auto is_meant) {
  const Candidate* best = nullptr;
  for (const Candidate& one : candidates) {
    if (is_meant(one) && (best == nullptr || rank_in_network(one) < rank_in_network(*best))) best = &one;
  }
  return best;
}

Chosen chosen_of(const Candidate& one, std::string network) {
  return {.device = one.port->device,
          .port = one.port->number,
          .is_roce = one.port->is_roce,
          .gid = one.gid,
          .gigabits = one.port->gigabits,
          .network = std::move(network)};
}

// ---- Choice of one network for all hosts -------------------------------------------------------

// for each host its candidates: usable ports, each with one of its GIDs
using Candidates = std::vector<std::vector<Candidate>>;

std::optional<std::vector<Chosen>> all_of(const Candidates& hosts, auto is_meant,
                                          const std::string& network) {
  std::vector<Chosen> all;
  for (const auto& host : hosts) {
    const Candidate* best = best_of(host, is_meant);
    if (best == nullptr) return std::nullopt;
    all.push_back(chosen_of(*best, network));
  }
  return all;
}

// The sort key of a network, given the port that each host would use in it; the network with the largest key
// is chosen. The rate of the slowest host counts first, then the kinds of the GIDs.
auto worth(const std::vector<Chosen>& all) {
  double slowest = all.front().gigabits;
  int least = 1 << 20, privates = 0, untagged = 0;
  for (const Chosen& one : all) {
    slowest = std::min(slowest, one.gigabits);
    least = std::min(least, one.gid ? score(*one.gid) : 0);
    privates += one.gid && is_private(one.gid->gid) ? 1 : 0;
    untagged += one.gid && one.gid->is_vlan ? 0 : 1;
  }
  return std::tuple(slowest, least, privates, untagged);
}

// A line for each port and the networks that it is in, hosts that offer the same together.
std::string table(std::span<const HostOffer> hosts, const Candidates& candidates) {
  using Ports = std::map<std::string, std::vector<std::string>>;   // networks by port
  std::vector<std::pair<std::vector<std::string>, Ports>> offers;  // with the hosts that have them
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    Ports has;
    for (const Candidate& one : candidates[i]) {
      std::vector<std::string>& in = has[fmt::format("{} port {}", one.port->device, one.port->number)];
      std::string network = text_of(one.network());
      if (std::ranges::find(in, network) == in.end()) in.push_back(std::move(network));
    }
    const auto same = std::ranges::find(offers, has, &std::pair<std::vector<std::string>, Ports>::second);
    if (same == offers.end())
      offers.push_back({{hosts[i].host}, std::move(has)});
    else
      same->first.push_back(hosts[i].host);
  }
  std::vector<std::array<std::string, 3>> rows = {{"hosts", "port", "networks"}};
  for (const auto& [names, ports] : offers) {
    std::string who = fmt::format("{}", fmt::join(names, " "));
    for (const auto& [port, networks] : ports)
      rows.push_back({std::exchange(who, ""), port, fmt::format("{}", fmt::join(networks, "; "))});
  }
  std::size_t first = 0, second = 0;
  for (const auto& row : rows) {
    first = std::max(first, row[0].size());
    second = std::max(second, row[1].size());
  }
  std::string text;
  for (const auto& [who, port, networks] : rows)
    text += fmt::format("\n  {:<{}}  {:<{}}  {}", who, first, port, second, networks);
  return text;
}

// ---- InfiniBand partitions ---------------------------------------------------------------------

constexpr std::uint16_t full_member = 0x8000, default_partition = 0xffff;

std::vector<std::uint16_t> pkeys_of(const HostOffer& host, const Chosen& chosen) {
  for (const PortOffer& port : host.ports) {
    if (port.device == chosen.device && port.number == chosen.port && !port.pkeys.empty()) return port.pkeys;
  }
  return {default_partition};
}

std::optional<std::uint16_t> index_of(const std::vector<std::uint16_t>& pkeys, std::uint16_t pkey) {
  const auto at = std::ranges::find(pkeys, pkey);
  if (at == pkeys.end()) return std::nullopt;
  return static_cast<std::uint16_t>(at - pkeys.begin());
}

Result<> choose_partition(std::span<const HostOffer> hosts, std::vector<Chosen>& all) {
  std::vector<std::string> rows;
  for (const std::uint16_t pkey : pkeys_of(hosts.front(), all.front())) {
    const bool is_wanted = std::ranges::all_of(hosts, [&](const HostOffer& host) {
      return !host.wish.pkey || ((*host.wish.pkey ^ pkey) & ~full_member & 0xffff) == 0;
    });
    if ((pkey & full_member) == 0 || !is_wanted) continue;
    std::size_t members = 0;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const auto index = index_of(pkeys_of(hosts[i], all[i]), pkey);
      if (!index) break;
      all[i].pkey_index = *index;
      all[i].pkey = pkey;
      ++members;
    }
    if (members == hosts.size()) return {};
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    std::vector<std::uint16_t> used = pkeys_of(hosts[i], all[i]);
    std::erase(used, 0);
    rows.push_back(fmt::format("{} has {:#06x}", hosts[i].host, fmt::join(used, ", ")));
  }
  return fail(hosts.front().wish.pkey ? ErrorCode::invalid_argument : ErrorCode::unsupported,
              fmt::format("{}no partition of which all hosts are full members: {}",
                          hosts.front().wish.pkey ? fmt::format("--pkey {:#06x}: ", *hosts.front().wish.pkey)
                                                  : "verbs: ",
                          fmt::join(rows, "; ")));
}

std::optional<std::vector<Chosen>> choose_network(const Candidates& candidates, bool may_route) {
  std::map<Network, std::vector<Chosen>> usable;
  for (const Candidate& one : candidates.front()) {
    const Network network = one.network();
    const auto is_in = [&network](const Candidate& other) { return other.network() == network; };
    if (auto all = all_of(candidates, is_in, text_of(network))) usable.emplace(network, std::move(*all));
  }
  const auto is_worse = [](const auto& one, const auto& other) {
    const auto left = worth(one.second), right = worth(other.second);
    if (left != right) return left < right;
    return std::tie(other.second.front().device, other.second.front().port) <
           std::tie(one.second.front().device, one.second.front().port);
  };
  if (!usable.empty()) return std::ranges::max_element(usable, is_worse)->second;
  if (!may_route) return std::nullopt;
  const auto is_routable = [](const Candidate& one) {
    return one.gid && one.gid->kind == GidKind::roce_v2 && !is_link_local(one.gid->gid);
  };
  return all_of(candidates, is_routable, "RoCE v2, routed");
}

// ---- Choice of the rails --------------------------------------------------------------------------

// by host, then by rail: the candidates
using RailCandidates = std::vector<std::vector<std::vector<Candidate>>>;
// by rail, then by host: the choice
using Rails = std::vector<std::vector<Chosen>>;

Candidates of_rail(const RailCandidates& hosts, std::size_t rail) {
  Candidates all;
  for (const auto& host : hosts) all.push_back(host[rail]);
  return all;
}

// Connects the first rail that each host names, then the second, and so on.
std::optional<Rails> pair_by_position(const RailCandidates& hosts, bool may_route) {
  Rails rails;
  for (std::size_t rail = 0; rail < hosts.front().size(); ++rail) {
    auto chosen = choose_network(of_rail(hosts, rail), may_route);
    if (!chosen) return std::nullopt;
    rails.push_back(std::move(*chosen));
  }
  return rails;
}

// Connects each rail of the first host to those rails of the other hosts that are in a network with it.
std::optional<Rails> pair_by_network(const RailCandidates& hosts) {
  RailCandidates left = hosts;
  Rails rails;
  for (const auto& first : hosts.front()) {
    Candidates candidates = {first};
    for (std::size_t host = 1; host < left.size(); ++host) {
      candidates.emplace_back();
      for (const auto& rail : left[host])
        candidates.back().insert(candidates.back().end(), rail.begin(), rail.end());
    }
    auto chosen = choose_network(candidates, false);
    if (!chosen) return std::nullopt;
    for (std::size_t host = 1; host < left.size(); ++host) {
      const Chosen& taken = chosen->at(host);
      const auto used = std::ranges::find_if(left[host], [&](const std::vector<Candidate>& rail) {
        return std::ranges::any_of(rail, [&](const Candidate& one) {
          return one.port->device == taken.device && one.port->number == taken.port;
        });
      });
      left[host].erase(used);
    }
    rails.push_back(std::move(*chosen));
  }
  return rails;
}

// The candidates without link-local GIDs of RoCE, except where a rail has no others. All Ethernet networks
// have the same link-local prefix, so that it does not tell which rails are in one network.
RailCandidates without_link_local(const RailCandidates& hosts) {
  const auto is_vague = [](const Candidate& one) {
    return one.gid && one.gid->kind != GidKind::infiniband && is_link_local(one.gid->gid);
  };
  RailCandidates left = hosts;
  for (auto& host : left) {
    for (auto& rail : host) {
      if (!std::ranges::all_of(rail, is_vague)) std::erase_if(rail, is_vague);
    }
  }
  return left;
}

std::optional<Rails> pair_rails(const RailCandidates& candidates) {
  std::optional<Rails> rails;
  if (candidates.front().size() > 1) {
    const RailCandidates telling = without_link_local(candidates);
    rails = pair_by_position(telling, false);
    if (!rails) rails = pair_by_network(telling);
  }
  if (!rails) rails = pair_by_position(candidates, false);
  if (!rails) rails = pair_by_network(candidates);
  if (!rails) rails = pair_by_position(candidates, true);
  return rails;
}

// Checks that the rails of each host are different ports with one format of packets, whose bytes on the wire
// are computed in one way.
Result<> check_rails(std::span<const HostOffer> hosts, const Rails& rails) {
  const auto kind = [](const Chosen& one) { return one.gid ? one.gid->kind : GidKind::infiniband; };
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (std::size_t rail = 1; rail < rails.size(); ++rail) {
      const Chosen& one = rails[rail][host];
      for (std::size_t before = 0; before < rail; ++before) {
        const Chosen& other = rails[before][host];
        if (one.device == other.device && one.port == other.port)
          return fail(ErrorCode::invalid_argument,
                      fmt::format("--device {}: two rails of {} are port {} of {} (NAME:PORT names a port)",
                                  hosts[host].wish.device, hosts[host].host, one.port, one.device));
        if (kind(one) != kind(other))
          return fail(ErrorCode::invalid_argument,
                      fmt::format("--device {}: the rails of {} are unlike: {} is in {}, {} in {}",
                                  hosts[host].wish.device, hosts[host].host, other.device, other.network,
                                  one.device, one.network));
      }
    }
  }
  return {};
}

Result<RailCandidates> candidates_of_all(std::span<const HostOffer> hosts) {
  RailCandidates all;
  for (const HostOffer& host : hosts) {
    if (host.ports.empty()) return std::unexpected(no_device());
    LOCH_ASSIGN(const std::vector<Filter> filters, filters_of(host));
    all.emplace_back();
    for (const Filter& filter : filters) {
      LOCH_ASSIGN(std::vector<Candidate> rail, candidates_of(host, filter));
      all.back().push_back(std::move(rail));
    }
    if (all.back().size() == all.front().size()) continue;
    return fail(ErrorCode::invalid_argument,
                fmt::format("--device: {} has {} rails and {} has {}; expected equally many on each host",
                            hosts.front().host, all.front().size(), host.host, all.back().size()));
  }
  return all;
}

}  // namespace

Result<std::vector<std::vector<Chosen>>> choose_rails(std::span<const HostOffer> hosts) {
  LOCH_ASSIGN(const RailCandidates candidates, candidates_of_all(hosts));
  std::optional<Rails> rails = pair_rails(candidates);
  if (!rails) {
    Candidates all;  // by host: the candidates of all its rails
    for (const auto& host : candidates) {
      all.emplace_back();
      for (const auto& rail : host) all.back().insert(all.back().end(), rail.begin(), rail.end());
    }
    const std::size_t count = candidates.front().size();
    return fail(ErrorCode::unsupported,
                count == 1
                    ? fmt::format("verbs: no network that all hosts have a port in (--device chooses){}",
                                  table(hosts, all))
                    : fmt::format("verbs: no {} networks in each of which all hosts have a rail{}", count,
                                  table(hosts, all)));
  }
  LOCH_TRY(check_rails(hosts, *rails));
  for (std::vector<Chosen>& rail : *rails) LOCH_TRY(choose_partition(hosts, rail));
  return std::move(*rails);
}

Result<std::vector<Chosen>> choose_ports(std::span<const HostOffer> hosts) {
  LOCH_ASSIGN(std::vector<std::vector<Chosen>> rails, choose_rails(hosts));
  return std::move(rails.front());
}

}  // namespace loch::fabric::verbs
