// Checks for every protocol whose tables are owned by server workers (NessieSD, NessieHY): many concurrent
// clients, tables that fill up, failing connections, dying nodes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/coupled/tables.h"
#include "tests/support/store_cluster.h"

namespace loch::support {

// The protocol under test; has to outlive the checks.
struct OwnedProtocol {
  const kv::Module& module;
  coupled::Tables& (*tables)(kv::Store&);

  [[nodiscard]] coupled::Tables& tables_of(StoreCluster& cluster) const { return tables(cluster.store()); }
  // The key of an option: "PROTOCOL.name".
  [[nodiscard]] std::string option(const std::string& name) const {
    return std::string(module.name()) + "." + name;
  }
};

// Outcomes of a load by all client workers (store_loads.h), which expect_sound_work returns after it has
// checked that no GET returned a mixed or wrong value, and that the tables are sound.
struct Worked {
  std::size_t workers = 0;
  std::uint64_t ok = 0, not_found = 0, other = 0;
  std::map<std::string, double> counters;  // the store's counters
  [[nodiscard]] std::uint64_t operations() const { return ok + not_found + other; }
};
[[nodiscard]] Worked expect_sound_work(const OwnedProtocol& protocol, const std::string& fabric,
                                       const StoreCluster::Shape& shape, std::uint64_t keys,
                                       std::uint32_t operations);

// Checks that clients read correctly while a nearly full table moves its keys. `options` are set besides the
// load factor.
void expect_moves_of_keys(const OwnedProtocol& protocol, const std::string& fabric, std::uint32_t operations,
                          const std::map<std::string, std::string>& options = {});
// Checks a deployment with one serving node.
void expect_one_node_to_serve(const OwnedProtocol& protocol, const std::string& fabric);
// Checks that no operation is lost or executed twice while requests fail, half of them after their execution.
// `options` are set besides retry-after, give-up-after and reconnect-timeout. Returns the store's counters.
[[nodiscard]] std::map<std::string, double> expect_no_loss_by_failures(
    const OwnedProtocol& protocol, const std::string& fabric,
    const std::map<std::string, std::string>& options);
// Checks that a full table refuses PUTs of new keys and keeps the keys that it has.
void expect_full_table_to_say_so(const OwnedProtocol& protocol);
// Checks the death of a serving node: PUTs under way have an unknown effect, later ones get an error, and
// keys of other nodes are still served.
void expect_errors_of_a_dead_node(const OwnedProtocol& protocol);
// Checks that deployments without a server, and unknown mutants, are refused, and known mutants are accepted.
// Returns a valid deployment for further checks.
[[nodiscard]] kv::DeployConfig expect_deployments(const OwnedProtocol& protocol);

}  // namespace loch::support
