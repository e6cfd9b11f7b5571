// What tests hold every protocol to whose tables are owned by server workers (NessieSD, NessieHY): many
// clients at work, tables that fill up, connections that fail, nodes that die.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/coupled/tables.h"
#include "tests/support/store_cluster.h"

namespace loch::support {

// Outlives the checks.
struct OwnedProtocol {
  const kv::Module& module;
  coupled::Tables& (*tables)(kv::Store&);

  [[nodiscard]] coupled::Tables& tables_of(StoreCluster& cluster) const { return tables(cluster.store()); }
  // "PROTOCOL.name"
  [[nodiscard]] std::string option(const std::string& name) const {
    return std::string(module.name()) + "." + name;
  }
};

// The work of every client worker (store_loads.h), none of whose GETs returned half a value or another key's,
// and which left the tables sound.
struct Worked {
  std::size_t workers = 0;
  std::uint64_t ok = 0, not_found = 0, other = 0;
  std::map<std::string, double> counters;  // of the store
  [[nodiscard]] std::uint64_t operations() const { return ok + not_found + other; }
};
[[nodiscard]] Worked expect_sound_work(const OwnedProtocol& protocol, const std::string& fabric,
                                       const StoreCluster::Shape& shape, std::uint64_t keys,
                                       std::uint32_t operations);

// A table that is nearly full moves its keys under its clients.
void expect_moves_of_keys(const OwnedProtocol& protocol, const std::string& fabric, std::uint32_t operations);
// One machine serves and the others ask.
void expect_one_node_to_serve(const OwnedProtocol& protocol, const std::string& fabric);
// Requests fail, half of them executed: none is lost or repeated. `options` beyond retry-after, give-up-after
// and reconnect-timeout. Returns the store's counters.
[[nodiscard]] std::map<std::string, double> expect_no_loss_by_failures(
    const OwnedProtocol& protocol, const std::string& fabric,
    const std::map<std::string, std::string>& options);
// A full table says so, and keeps what it has.
void expect_full_table_to_say_so(const OwnedProtocol& protocol);
// A server's node dies in the middle: PUTs that were under way are of unknown effect, later ones say that it
// cannot be reached, and the keys of other nodes are served on.
void expect_errors_of_a_dead_node(const OwnedProtocol& protocol);
// Deployments without a server and mutants of no such name are refused; known mutants are deployed. A
// deployment that is fine, for more.
[[nodiscard]] kv::DeployConfig expect_deployments(const OwnedProtocol& protocol);

}  // namespace loch::support
