// Options and shape of a deployment, decided and checked before anything is registered.
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
  pipeline,  // 2014: a request moves through three stages while others come behind it
  batch,     // 2016: all buckets of a batch, then all of its log entries
};

// The fixes of the published protocol (docs/protocols/herd.md), and the known-bad variants.
struct Rules {
  bool numbers = true;     // Q1: sequence numbers; what was executed is not executed again
  bool scans_all = true;   // Q2: the worker looks at every slot of a client, not at the next one alone
  bool never_zero = true;  // Q3: no keyhash looks like an empty slot
  bool checks = true;      // Q5: a request of several lines is here when its check says so
  // Mutants.
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
  SlotFormat format;  // places_lines is set once the fabric is known
  PartitionShape partition;
  Prefetch prefetch = Prefetch::pipeline;
  std::uint32_t batch = 1;
  Nanos drain = 0;
  rpc::DatagramShape replies;
  Nanos retry = 0, give_up = 0;
  std::uint16_t first_number = 0;
  bool rewrites = true;  // a request without a reply is written again

  // Server workers and client workers of the whole cluster.
  [[nodiscard]] std::uint32_t servers() const { return config.serving_nodes() * config.server_workers; }
  [[nodiscard]] std::uint32_t clients() const { return config.driving_nodes() * config.client_workers; }
  // Request slots of one server worker: [client][window].
  [[nodiscard]] std::uint32_t slots() const { return clients() * config.window; }
  [[nodiscard]] std::uint64_t slot_at(std::uint32_t server_of_node, std::uint32_t slot) const {
    return (std::uint64_t{server_of_node} * slots() + slot) * format.slot_bytes;
  }
  // The server that owns a key: a server worker of the cluster, by node and then by worker.
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
// The holes that these options leave open, each with the option that fixes it.
[[nodiscard]] std::vector<kv::Fix> open_holes(const kv::Options& options);
// The holes that violate by themselves, with the others fixed.
[[nodiscard]] std::vector<kv::Hole> single_holes();
[[nodiscard]] std::map<std::string, std::string> draw_options(Rng& rng, const kv::DeployConfig& shape);
[[nodiscard]] Result<Settings> decide(const kv::DeployConfig& config, const kv::Options& options,
                                      std::string_view mutant);

}  // namespace loch::herd
