// How many entries a table needs beyond its keys, where what a PUT replaced may be used again only after
// some time (Nessie's expiry period, 2017, 4.3.1): as many as the load's PUTs can replace meanwhile. With
// fewer the store waits for entries to expire, and its rate is that of the expiry, not of the design.
#pragma once

#include <cstdint>

#include "common/kv/options.h"
#include "common/kv/protocol.h"

namespace loch::kv {

// The option PROTOCOL.spare-limit, which bounds spare_for_load().
[[nodiscard]] OptionSpec spare_limit_option(const std::string& protocol);

struct SpareNeed {
  double lanes = 1;               // operations under way at once whose PUTs take entries of this table
  double puts_per_ns_max = 1;     // of the table, whatever the lanes
  Nanos reuse_after = 0;          // from when an entry is replaced until it may be used again
  std::uint64_t entry_bytes = 1;  // as memory keeps them
  std::uint64_t limit_bytes = 0;  // for this table's
};
// Entries for one table, as many as fit in the limit; 0 where the length of the load is not known
// (DeployConfig::load_time).
[[nodiscard]] double spare_for_load(const DeployConfig& config, const SpareNeed& need);

}  // namespace loch::kv
