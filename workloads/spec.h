// The specification of a load: from flags, from a YAML workload file, or from YCSB property files.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/settings/setting.h"
#include "workloads/distribution.h"
#include "workloads/properties.h"
#include "workloads/sizes.h"

namespace loch::workloads {

// Shares of the operations; they sum to 1.
struct OperationMix {
  double get = 0.9, put = 0.1, remove = 0;  // PUTs of records that are there
  double insert = 0;                        // PUTs of new records
  double read_modify_write = 0;             // a GET and then a PUT of the same record
  double insert_if_absent = 0;  // INSERTs: PUTs that take effect only where the record is not there
};

enum class KeyOrder : std::uint8_t {
  hashed,   // record i is "user" + fnv64(i)
  ordered,  // record i is "user" + i
};

// The requested sizes of keys or of values.
struct SizeRequest {
  std::optional<SizeKind> kind;
  std::optional<std::uint32_t> least;           // bytes
  std::optional<std::array<double, 3>> pareto;  // location, scale, shape
  std::optional<std::string> histogram;         // file
  std::uint32_t pieces = 1;                     // YCSB's fieldcount
  // Fields that `other` has replace this object's.
  void override_with(const SizeRequest& other);
};
// "LOCATION,SCALE,SHAPE"; none if it is not that.
[[nodiscard]] std::optional<std::array<double, 3>> parse_pareto(std::string_view text);
// The sizes that `request` makes of values (or keys) of up to `most` bytes; null where all have `most`.
// `flag` is "key-size" or "value-size", which messages begin with.
[[nodiscard]] Result<std::shared_ptr<const Sizes>> sizes_of(const SizeRequest& request, std::uint32_t most,
                                                            SizedData of, std::string_view flag);

// Every field that a file leaves out stays empty, so that flags and defaults can fill it in.
struct WorkloadSpec {
  std::optional<OperationMix> mix;
  std::optional<DistributionSpec> distribution;
  std::optional<std::uint64_t> records;
  std::optional<std::uint64_t> operations;
  std::optional<std::uint32_t> key_size, value_size;  // bytes of the largest key, of the largest value
  SizeRequest key_sizes, value_sizes;
  std::optional<double> target_rate;     // operations a second, all clients; 0: closed loop
  std::optional<std::uint32_t> threads;  // YCSB's threadcount: client workers in all
  std::optional<Nanos> duration;         // YCSB's maxexecutiontime
  std::optional<bool> verify;            // YCSB's dataintegrity
  KeyOrder key_order = KeyOrder::hashed;
  std::uint32_t zero_padding = 1;
  std::vector<std::string> notes;  // keys that have no meaning here, each named
};

// YCSB's properties with YCSB's defaults. Scans are refused by name: a hash index has no order.
[[nodiscard]] Result<WorkloadSpec> from_ycsb(const Properties& properties);

// A YAML workload file: get, delete, insert, read_modify_write, distribution, zipf_theta, keys,
// key_size, value_size, … as on the command line with '_' or '-'.
[[nodiscard]] Result<WorkloadSpec> from_yaml(std::string_view text, std::string_view file);

// The keys of such a file, with their types, ranges and defaults.
[[nodiscard]] const std::vector<settings::Setting>& yaml_settings();

// Reads files in order (later ones win) and then the overrides ("key=value"). A file whose name ends
// in .yaml or .yml is YAML, and then the only one; any other is YCSB properties.
[[nodiscard]] Result<WorkloadSpec> load_workload(const std::vector<std::string>& files,
                                                 const std::vector<std::string>& overrides);

// Shares within [0, 1] that sum to 1.
[[nodiscard]] Result<> check(const OperationMix& mix);

}  // namespace loch::workloads
