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
  std::uint32_t round = 1;    // turns of an operation, to the serving nodes in turn
  std::uint32_t credits = 0;  // SENDs on their way in the whole cluster, at most; 0: any number
  Nanos reconnect_timeout = 0;

  // Places that are read and written on a node that serves, and a landing place of a client's.
  static constexpr std::uint32_t places = 64;
  [[nodiscard]] std::uint32_t place_bytes() const {
    return (traffic.bytes < 8 ? 8 : traffic.bytes + 63) / 64 * 64 + 64;
  }
  [[nodiscard]] bool sends() const { return traffic.verb == fabric::Verb::send; }
};

[[nodiscard]] std::vector<kv::OptionSpec> option_specs(Kind kind);
[[nodiscard]] Result<Settings> decide(Kind kind, const kv::DeployConfig& shape, const kv::Options& options);
[[nodiscard]] fabric::Requirements requirements(Kind kind, const kv::Options& options);

}  // namespace loch::micro
