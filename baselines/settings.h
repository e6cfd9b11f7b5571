// One deployment of a baseline, decided: options parsed, sizes worked out, combinations checked.
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

// The link under the modelled TCP (Pilaf 2013, table 1).
enum class Link : std::uint8_t { ipoib, ethernet };
[[nodiscard]] std::string_view name(Link link);

struct Settings {
  kv::DeployConfig config;
  System system = System::memcached;
  std::vector<Address> given;      // --NAME.address; empty: Loch starts the servers
  bool is_unix = true;             // the servers listen on Unix sockets; false: on 127.0.0.1
  std::uint32_t servers = 1;       // of the whole cluster
  std::uint32_t threads = 1;       // threads per server
  std::string binary;              // --NAME.binary; empty: looked for
  std::uint64_t memory_bytes = 0;  // that a server may use for its data
  Nanos timeout = 0;               // longest time of one wait
  Nanos start_timeout = 0;         // for a server to be ready, and for its share of the preload
  Link link = Link::ipoib;
  bool only_echoes = false;  // the modelled servers cost what an echo does (Pilaf 2013, table 1), no more
  // Mutants of the model.
  bool keeps_copies = false;    // clients answer from copies of their own
  bool executes_twice = false;  // a request that is sent again is executed again
  bool writes_behind = false;   // a PUT is answered, and stored only after the server's next request

  [[nodiscard]] bool is_mutant() const { return keeps_copies || executes_twice || writes_behind; }
  [[nodiscard]] std::string flag(std::string_view option) const;  // "memcached.address"
  // The node that hosts server `index`, where Loch starts them.
  [[nodiscard]] fabric::NodeId node_of(std::uint32_t server) const;
  // Which server holds the key.
  [[nodiscard]] std::uint32_t server_of(kv::Key key) const;
};

[[nodiscard]] std::vector<kv::OptionSpec> option_specs(System system);
[[nodiscard]] std::map<std::string, kv::Mutant> mutants(System system);
[[nodiscard]] Result<Settings> decide(System system, const kv::DeployConfig& config,
                                      const kv::Options& options, std::string_view mutant);

}  // namespace loch::baselines
