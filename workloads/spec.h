// What a load asks for: from flags, from a YAML workload file, or from YCSB property files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "workloads/distribution.h"
#include "workloads/properties.h"

namespace loch::workloads {

// Shares of the operations; they sum to 1.
struct OperationMix {
  double get = 0.9, put = 0.1, remove = 0;  // PUTs of records that are there
  double insert = 0;                        // PUTs of new records
  double read_modify_write = 0;             // a GET and then a PUT of the same record
};

enum class KeyOrder : std::uint8_t {
  hashed,   // record i is "user" + fnv64(i)
  ordered,  // record i is "user" + i
};

// Every field that a file leaves out stays empty, so that flags and defaults can fill it in.
struct WorkloadSpec {
  std::optional<OperationMix> mix;
  std::optional<DistributionSpec> distribution;
  std::optional<std::uint64_t> records;
  std::optional<std::uint64_t> operations;
  std::optional<std::uint32_t> key_size, value_size;  // bytes
  std::optional<double> target_rate;                  // operations a second, all clients; 0: closed loop
  std::optional<std::uint32_t> threads;               // YCSB's threadcount: client workers in all
  std::optional<Nanos> duration;                      // YCSB's maxexecutiontime
  std::optional<bool> verify;                         // YCSB's dataintegrity
  KeyOrder key_order = KeyOrder::hashed;
  std::uint32_t zero_padding = 1;
  std::vector<std::string> notes;  // keys that have no meaning here, each named
};

// YCSB's properties with YCSB's defaults. Scans are refused by name: a hash index has no order.
[[nodiscard]] Result<WorkloadSpec> from_ycsb(const Properties& properties);

// A YAML workload file: get, delete, insert, read_modify_write, distribution, zipf_theta, keys,
// key_size, value_size, … as on the command line with '_' or '-'.
[[nodiscard]] Result<WorkloadSpec> from_yaml(std::string_view text, std::string_view file);

// Reads files in order (later ones win) and then the overrides ("key=value"). A file whose name ends
// in .yaml or .yml is YAML, and then the only one; any other is YCSB properties.
[[nodiscard]] Result<WorkloadSpec> load_workload(const std::vector<std::string>& files,
                                                 const std::vector<std::string>& overrides);

// Shares within [0, 1] that sum to 1.
[[nodiscard]] Result<> check(const OperationMix& mix);

}  // namespace loch::workloads
