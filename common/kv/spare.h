// How many entries a table needs beyond its keys, if the entry that a PUT replaced may be reused only after
// some time (in Nessie the expiry period; its paper of 2017, section 4.3.1): as many as the load's PUTs can
// replace within that time. With fewer entries the store waits for entries to expire, and the expiry period
// rather than the design limits the rate of PUTs.
#pragma once

#include <cstdint>

#include "common/kv/options.h"
#include "common/kv/protocol.h"

namespace loch::kv {

// The option PROTOCOL.spare-limit, which bounds spare_for_load().
[[nodiscard]] OptionSpec spare_limit_option(const std::string& protocol);

// If a cluster has at most this many bytes of keys and values, the number of spare entries is computed from
// the size of whole entries even in a simulation that elides values (stores only a part of each), so that
// eliding changes no simulated time. For more data it is computed from the bytes that memory stores.
constexpr double whole_values_up_to = 1 << 30;

struct SpareNeed {
  double lanes = 1;  // largest number of concurrent operations that take entries of this table for PUTs
  double puts_per_ns_max = 1;     // largest rate of PUTs to the table
  Nanos reuse_after = 0;          // ns from the replacement of an entry until it may be reused
  std::uint64_t entry_bytes = 1;  // bytes of an entry that memory stores
  std::uint64_t whole_bytes = 1;  // bytes of a whole entry
  std::uint64_t limit_bytes = 0;  // largest number of bytes that the spare entries of this table may take
};
// Number of spare entries for one table, limited by limit_bytes; 0 if the duration of the load is unknown
// (DeployConfig::load_time).
[[nodiscard]] double spare_for_load(const DeployConfig& config, const SpareNeed& need);

}  // namespace loch::kv
