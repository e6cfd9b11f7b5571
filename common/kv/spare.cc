// Computes the number of spare entries from the fastest PUTs that a network allows and the time before a
// replaced entry can be reused.
#include "common/kv/spare.h"

#include <algorithm>
#include <cmath>

namespace loch::kv {
namespace {

// Lower bound of the duration of one PUT: two round trips over the fastest fabrics of today. The transfer of
// the value at 100 Gb/s is added.
constexpr double fastest_put_ns = 2'000;
constexpr double value_bytes_per_ns = 12.5;

}  // namespace

OptionSpec spare_limit_option(const std::string& protocol) {
  return {protocol + ".spare-limit",
          OptionType::size,
          "256M",
          "memory a node for DTEs beyond its keys: a run gets as many as its PUTs can replace before the "
          "first may be "
          "used again, unless a repair may have to walk them (--scrub, --repair-after, several processes); "
          "0: none",
          {},
          0,
          1e12};
}

double spare_for_load(const DeployConfig& config, const SpareNeed& need) {
  const auto resting = static_cast<double>(std::min(config.load_time, need.reuse_after));
  const double put_ns = fastest_put_ns + config.value_size / value_bytes_per_ns;
  const double puts = resting * std::min(need.lanes / put_ns, need.puts_per_ns_max);
  const double data =
      (static_cast<double>(config.key_size) + config.value_size) * static_cast<double>(config.max_keys);
  const std::uint64_t entry = data <= whole_values_up_to ? need.whole_bytes : need.entry_bytes;
  const double room = static_cast<double>(need.limit_bytes) / static_cast<double>(entry);
  return std::floor(std::min(puts, room));
}

}  // namespace loch::kv
