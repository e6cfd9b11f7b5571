// The settings of one deployment of a baseline: parsed options, derived sizes, checked combinations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "baselines/address.h"
#include "common/kv/options.h"
#include "common/kv/protocol.h"

namespace loch::baselines {

enum class System : std::uint8_t { memcached, redis };
[[nodiscard]] std::string_view name(System system);

// The link below the modelled TCP (Pilaf 2013, table 1).
enum class Link : std::uint8_t { ipoib, ethernet };
[[nodiscard]] std::string_view name(Link link);

struct Settings {
  kv::DeployConfig config;
  System system = System::memcached;
  std::vector<Address> given;      // servers of --NAME.address; empty: Loch starts the servers
  bool is_unix = true;             // true: the servers listen on Unix sockets; false: on 127.0.0.1
  std::uint32_t servers = 1;       // number of servers in the whole cluster
  std::uint32_t threads = 1;       // threads per server
  std::string binary;              // program of --NAME.binary; empty: search for it
  std::uint64_t memory_bytes = 0;  // memory in bytes that one server may use for records
  Nanos timeout = 0;               // longest wait in ns for a connection or a reply
  Nanos start_timeout = 0;         // longest wait in ns for a server's start, and for progress of the preload
  Link link = Link::ipoib;
  // true: modelled servers cost no more CPU time than an echo (Pilaf 2013, table 1)
  bool only_echoes = false;
  // Known-bad variants of the model.
  bool keeps_copies = false;    // true: clients answer GETs from their own copies
  bool executes_twice = false;  // true: a repeated request is executed again
  bool writes_behind = false;   // a PUT is answered first, and stored only after the server's next request

  [[nodiscard]] bool is_mutant() const { return keeps_copies || executes_twice || writes_behind; }
  // Name of an option, such as "memcached.address".
  [[nodiscard]] std::string flag(std::string_view option) const;
  // The node on which Loch starts server `index`.
  [[nodiscard]] fabric::NodeId node_of(std::uint32_t server) const;
  // Index of the server that holds the key.
  [[nodiscard]] std::uint32_t server_of(kv::Key key) const;
};

[[nodiscard]] std::vector<kv::OptionSpec> option_specs(System system);
[[nodiscard]] std::map<std::string, kv::Mutant> mutants();
[[nodiscard]] Result<Settings> decide(System system, const kv::DeployConfig& config,
                                      const kv::Options& options, std::string_view mutant);

}  // namespace loch::baselines
