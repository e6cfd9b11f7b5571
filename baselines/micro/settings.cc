// Options of micro-verbs and micro-atomic: their tables, checks of direction and verb, and requirements.
#include "baselines/micro/settings.h"

#include <fmt/format.h>

#include <string>

namespace loch::micro {
namespace {
using fabric::Transport;
using fabric::Verb;

std::string key(Kind kind, std::string_view option) { return fmt::format("{}.{}", name(kind), option); }

Verb verb_of(const std::string& text) {
  if (text == "write") return Verb::write;
  if (text == "send") return Verb::send;
  if (text == "cas") return Verb::cas;
  if (text == "faa") return Verb::faa;
  return Verb::read;
}
Transport transport_of(const std::string& text) {
  if (text == "uc") return Transport::uc;
  return text == "ud" ? Transport::ud : Transport::rc;
}

Result<> refuse(std::string why) { return fail(ErrorCode::invalid_argument, std::move(why)); }

// Checks the direction: "outbound" measures the rate of a node that posts work requests, "inbound" the rate
// of a node to which others post them.
Result<> check_direction(const Settings& settings, const std::string& direction) {
  const kv::DeployConfig& shape = settings.shape;
  const std::string flag = "--" + key(settings.kind, "direction");
  if (direction == "inbound" && shape.serving_nodes() != 1) {
    return refuse(fmt::format("{} inbound: many nodes post to one: --server-nodes 1, not {}", flag,
                              shape.server_nodes));
  }
  if (direction == "outbound" && (shape.driving_nodes() != 1 || shape.nodes == 1)) {
    return refuse(fmt::format("{} outbound: one node posts to the others: --server-nodes {}, not {}", flag,
                              shape.nodes - 1, shape.server_nodes));
  }
  return {};
}

// Checks the options that spread the traffic of micro-verbs.
Result<> check_spread(const Settings& settings) {
  const auto flag = [&](std::string_view option) { return "--" + key(settings.kind, option); };
  if (settings.draws_peers && settings.sends())
    return refuse(flag("peers") + " random: for READs and WRITEs");
  if (settings.signal_interval == 1) return {};
  if (settings.sends()) return refuse(flag("signal-interval") + ": for READs and WRITEs");
  if (settings.traffic.per_turn() > 1)
    return refuse(flag("signal-interval") +
                  ": batch and unsignaled say what is signaled: both of them as they are");
  if (settings.traffic.verb == Verb::read && settings.traffic.bytes < 8)
    return refuse(flag("signal-interval") + ": a READ of at least 8 bytes: its first word is polled");
  return {};
}

Result<> check_verb(const Settings& settings) {
  const fabric::Traffic& traffic = settings.traffic;
  const std::string flag = "--" + key(settings.kind, "transport");
  if (traffic.verb == Verb::read && traffic.transport != Transport::rc)
    return refuse(flag + ": READs need rc");
  if (traffic.verb == Verb::write && traffic.transport == Transport::ud)
    return refuse(flag + " ud: a datagram is a SEND");
  if (settings.sends() && settings.shape.server_workers == 0) {
    return refuse("--servers 0: a SEND needs somebody who receives: --servers 1 or more");
  }
  if (traffic.batch > 1 && traffic.unsignaled > 0) {
    return refuse(fmt::format("--{}: a batch has its own unsignaled ones", key(settings.kind, "unsignaled")));
  }
  return {};
}
}  // namespace

std::vector<kv::OptionSpec> option_specs(Kind kind) {
  using kv::OptionType;
  const bool verbs = kind == Kind::verbs;
  std::vector<kv::OptionSpec> all;
  if (verbs) {
    all.push_back({key(kind, "verb"),
                   OptionType::choice,
                   "read",
                   "what an operation posts",
                   {"read", "write", "send"}});
    all.push_back({key(kind, "transport"),
                   OptionType::choice,
                   "rc",
                   "READ: rc; WRITE: rc, uc; SEND: all",
                   {"rc", "uc", "ud"}});
    all.push_back({key(kind, "bytes"),
                   OptionType::size,
                   "0",
                   "payload of a work request; 0: --value-size",
                   {},
                   0,
                   1 << 24});
    all.push_back(
        {key(kind, "round"),
         OptionType::integer,
         "1",
         "an operation is so many of them, to the nodes in turn, and all are waited for (guidelines "
         "2016, 5.3.2: windows)",
         {},
         1,
         4096});
    all.push_back({key(kind, "credits"),
                   OptionType::integer,
                   "0",
                   "unreliable SENDs on their way to all nodes, at most, as a lossless link's credits hold "
                   "senders back; 0: no limit; one process",
                   {},
                   0,
                   1 << 20});
    all.push_back({key(kind, "header-only"),
                   OptionType::boolean,
                   "false",
                   "SENDs without a payload (guidelines 2016, 3.2)",
                   {}});
    all.push_back(
        {key(kind, "peers"),
         OptionType::choice,
         "turn",
         "node and queue pair of a work request: in turn, or drawn at random among those of its worker to "
         "other nodes",
         {"turn", "random"}});
    all.push_back(
        {key(kind, "buffer"),
         OptionType::size,
         "0",
         "a node's bytes, of which a work request draws a cache line at random; 0: few lines, in turn",
         {},
         0,
         std::int64_t{1} << 34});
    all.push_back({key(kind, "signal-interval"),
                   OptionType::integer,
                   "1",
                   "selective signaling: one of a client worker's work requests in so many makes a "
                   "completion; at most three "
                   "such are outstanding. Other READs are seen in memory, other WRITEs not awaited",
                   {},
                   1,
                   1024});
    all.push_back(
        {key(kind, "inline"),
         OptionType::choice,
         "auto",
         "payload in the work request: where it fits the device, always, or never (guidelines 2016, 3.2)",
         {"auto", "on", "off"}});
  } else {
    all.push_back({key(kind, "verb"), OptionType::choice, "faa", "what an operation posts", {"faa", "cas"}});
    all.push_back({key(kind, "counters"),
                   OptionType::integer,
                   "1",
                   "counters of 8 bytes on a node, drawn at random (guidelines 2016, 5.4: Z)",
                   {},
                   1,
                   1 << 20});
  }
  all.push_back({key(kind, "batch"),
                 OptionType::integer,
                 "1",
                 "work requests an operation, one doorbell (guidelines 2016, 3.1)",
                 {},
                 1,
                 fabric::most_batch});
  all.push_back({key(kind, "unsignaled"),
                 OptionType::integer,
                 "0",
                 "work requests posted one by one, and not waited for, before each that is",
                 {},
                 0,
                 63});
  all.push_back({key(kind, "queue-pairs"),
                 OptionType::integer,
                 "1",
                 "of a client worker to a node (datagrams: in all), in turn (guidelines 2016, 3.3)",
                 {},
                 1,
                 64});
  all.push_back(
      {key(kind, "direction"),
       OptionType::choice,
       "any",
       "inbound: many nodes to one; outbound: one to many; other shapes are refused (guidelines 2016, 2.2.3)",
       {"any", "inbound", "outbound"}});
  all.push_back({key(kind, "reconnect-timeout"),
                 OptionType::duration,
                 "100ms",
                 "to reach a node again after an error",
                 {},
                 1000,
                 1e11});
  return all;
}

Result<Settings> decide(Kind kind, const kv::DeployConfig& shape, const kv::Options& options) {
  Settings settings;
  settings.kind = kind;
  settings.shape = shape;
  fabric::Traffic& traffic = settings.traffic;
  const auto number = [&](std::string_view option) {
    return static_cast<std::uint32_t>(options.integer(key(kind, option)));
  };
  traffic.verb = verb_of(options.choice(key(kind, "verb")));
  traffic.batch = number("batch");
  traffic.unsignaled = number("unsignaled");
  traffic.lanes = number("queue-pairs");
  settings.reconnect_timeout = options.integer(key(kind, "reconnect-timeout"));
  if (kind == Kind::verbs) {
    traffic.transport = transport_of(options.choice(key(kind, "transport")));
    traffic.bytes = number("bytes") > 0 ? number("bytes") : shape.value_size;
    settings.round = number("round");
    settings.credits = number("credits");
    settings.draws_peers = options.choice(key(kind, "peers")) == "random";
    settings.buffer = static_cast<std::uint64_t>(options.integer(key(kind, "buffer")));
    settings.signal_interval = number("signal-interval");
    const std::string& inlining = options.choice(key(kind, "inline"));
    settings.inlining = inlining == "on"    ? Inlining::always
                        : inlining == "off" ? Inlining::never
                                            : Inlining::as_it_fits;
    if (options.boolean(key(kind, "header-only"))) {
      if (!settings.sends())
        LOCH_TRY(refuse(fmt::format("--{}: only a SEND has no payload", key(kind, "header-only"))));
      traffic.bytes = 0;
    }
  } else {
    traffic.bytes = 8;
    traffic.words = number("counters");
  }
  LOCH_TRY(check_verb(settings));
  LOCH_TRY(check_spread(settings));
  if (settings.credits > 0 && (!settings.sends() || traffic.transport == Transport::rc))
    LOCH_TRY(refuse(fmt::format("--{}: for SENDs over uc or ud", key(kind, "credits"))));
  LOCH_TRY(check_direction(settings, options.choice(key(kind, "direction"))));
  return settings;
}

fabric::Requirements requirements(Kind kind, const kv::Options& options) {
  if (kind == Kind::atomic) return {.rc = true, .atomic_scope = fabric::AtomicScope::nic, .max_rd_atomic = 1};
  fabric::Requirements needs;
  const Transport transport = transport_of(options.choice(key(kind, "transport")));
  needs.rc = transport == Transport::rc;
  needs.uc = transport == Transport::uc;
  needs.ud = transport == Transport::ud;
  const bool sends = options.choice(key(kind, "verb")) == "send";
  needs.receives_rc = sends && needs.rc;
  needs.receives_uc = sends && needs.uc;
  if (needs.ud) needs.ud_lanes = static_cast<std::uint32_t>(options.integer(key(kind, "queue-pairs")));
  return needs;
}

}  // namespace loch::micro
