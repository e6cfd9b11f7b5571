// Options and sizes of a HERD deployment, decided and checked before anything is registered.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/kv/protocol.h"
#include "common/rpc/datagram.h"
#include "herd_em/format.h"
#include "herd_em/partition.h"

namespace loch::herd {

enum class Prefetch : std::uint8_t {
  none,
  pipeline,  // HERD 2014: three stages, each with one request at a time
  batch,     // HERD 2016: prefetches all buckets of a batch of requests, then all of their log entries
};

// Rules that fix holes (known faults) of the published protocol (docs/protocols/herd.md), and rules that
// known-bad variants break.
struct Rules {
  // true: fixes known fault Q1 (a repeated PUT overwrites newer data): requests are numbered, and the server
  // does not execute a duplicate
  bool numbers = true;
  // true: fixes known fault Q2 (after a lost request the worker waits for ever): the worker polls all request
  // slots of a client, not only the one that it expects to be used next
  bool scans_all = true;
  // true: fixes known fault Q3 (a request that looks like an empty request slot is ignored): no keyhash looks
  // like an empty slot
  bool never_zero = true;
  // true: fixes known fault Q5 (an incomplete request is executed): a request of several cache lines needs a
  // matching checksum
  bool checks = true;
  // The members from here on are defects; each known-bad variant sets one of them.
  bool executes_duplicates = false;
  bool awaits_no_reply = false;
  bool takes_any_reply = false;
  bool keeps_sequence = false;
  bool repeats_word = false;
  bool trusts_first_look = false;
  bool ignores_server = false;
  bool timeouts_are_none = false;
  bool forgets_status = false;
  bool inserts_say_done = false;
};

struct Settings {
  kv::DeployConfig config;
  Rules rules;
  SlotFormat format;  // format of request slots; `places_lines` is set later, from the fabric's capabilities
  PartitionShape partition;
  Prefetch prefetch = Prefetch::pipeline;
  std::uint32_t batch = 1;
  Nanos drain = 0;
  rpc::DatagramShape replies;
  fabric::Transport transport = fabric::Transport::uc;  // transport of requests; replies are UD datagrams
  Nanos retry = 0, give_up = 0;
  std::uint16_t first_number = 0;
  bool rewrites = true;  // true: a client writes a request again if no reply comes within `retry`

  // Numbers of server workers and client workers in the whole cluster.
  [[nodiscard]] std::uint32_t servers() const { return config.serving_nodes() * config.server_workers; }
  [[nodiscard]] std::uint32_t clients() const { return config.driving_nodes() * config.client_workers; }
  // Number of request slots of one server worker: one for each window slot (outstanding operation) of each
  // client.
  [[nodiscard]] std::uint32_t slots() const { return clients() * config.window; }
  [[nodiscard]] std::uint64_t slot_at(std::uint32_t server_of_node, std::uint32_t slot) const {
    return (std::uint64_t{server_of_node} * slots() + slot) * format.slot_bytes;
  }
  // The server worker that owns the key, numbered over the cluster by node and then by worker.
  [[nodiscard]] std::uint32_t server_of(KeyHash key) const { return key.partition(servers()); }
  [[nodiscard]] fabric::NodeId node_of_server(std::uint32_t server) const {
    return static_cast<fabric::NodeId>(server / config.server_workers);
  }
  [[nodiscard]] rpc::DatagramAddress address_of_client(std::uint32_t client) const {
    return {static_cast<fabric::NodeId>(config.server_nodes + client / config.client_workers),
            static_cast<std::uint16_t>(client % config.client_workers)};
  }
};

[[nodiscard]] std::vector<kv::OptionSpec> option_specs();
[[nodiscard]] std::map<std::string, kv::Mutant> mutants();
// The holes (known faults) that these options leave open, each with the option that fixes it.
[[nodiscard]] std::vector<kv::Fix> open_holes(const kv::Options& options);
// Holes (known faults) that a test can show one at a time: each with the options that fix all other holes.
[[nodiscard]] std::vector<kv::Hole> single_holes();
[[nodiscard]] std::map<std::string, std::string> draw_options(Rng& rng, const kv::DeployConfig& shape);
[[nodiscard]] Result<Settings> decide(const kv::DeployConfig& config, const kv::Options& options,
                                      std::string_view mutant);

}  // namespace loch::herd
