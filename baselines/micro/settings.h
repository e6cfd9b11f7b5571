// Settings of micro-verbs and micro-atomic, derived from their options.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/traffic.h"
#include "common/kv/protocol.h"

namespace loch::micro {

enum class Kind : std::uint8_t { verbs, atomic };
[[nodiscard]] constexpr std::string_view name(Kind kind) {
  return kind == Kind::verbs ? "micro-verbs" : "micro-atomic";
}

enum class Inlining : std::uint8_t { as_it_fits, never, always };

struct Settings {
  Kind kind = Kind::verbs;
  kv::DeployConfig shape;
  fabric::Traffic traffic;
  Inlining inlining = Inlining::as_it_fits;
  std::uint32_t round = 1;    // number of work requests in an operation; each goes to the next serving node
  std::uint32_t credits = 0;  // SENDs that may be sent and not yet received, over all nodes; 0: no bound
  // true: each work request goes to a queue pair drawn at random; false: the queue pairs are used in rotation
  bool draws_peers = false;
  // bytes of each serving node's buffer, of which a work request draws a cache line at random; 0: work
  // requests go to the memory's `places` blocks in turn
  std::uint64_t buffer = 0;
  // One in signal_interval work requests of a client worker is signaled. The data of an unsignaled READ are
  // found by polling memory; an unsignaled WRITE is not waited for.
  std::uint32_t signal_interval = 1;
  Nanos reconnect_timeout = 0;

  // Number of blocks into which a serving node's memory is divided for requests. A client's buffer for the
  // data of READs has the size of one block.
  static constexpr std::uint32_t places = 64;
  [[nodiscard]] std::uint32_t place_bytes() const {
    return (traffic.bytes < 8 ? 8 : traffic.bytes + 63) / 64 * 64 + 64;
  }
  [[nodiscard]] std::uint64_t served_bytes() const {
    return buffer > 0 ? buffer + place_bytes() : std::uint64_t{places} * place_bytes();
  }
  [[nodiscard]] bool sends() const { return traffic.verb == fabric::Verb::send; }
};

[[nodiscard]] std::vector<kv::OptionSpec> option_specs(Kind kind);
[[nodiscard]] Result<Settings> decide(Kind kind, const kv::DeployConfig& shape, const kv::Options& options);
[[nodiscard]] fabric::Requirements requirements(Kind kind, const kv::Options& options);

}  // namespace loch::micro
