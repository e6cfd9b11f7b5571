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

// Shares of the kinds of operation; they sum to 1.
struct OperationMix {
  double get = 0.9, put = 0.1, remove = 0;  // PUTs write existing records
  double insert = 0;                        // share of PUTs of new records
  double read_modify_write = 0;             // share of operations that GET a record and then PUT it
  double insert_if_absent = 0;              // share of INSERTs, which write a record only if it is absent
};

enum class KeyOrder : std::uint8_t {
  hashed,   // the key of record i is "user" + fnv64(i)
  ordered,  // the key of record i is "user" + i
};

// The sizes of keys or of values that the user asked for.
struct SizeRequest {
  std::optional<SizeKind> kind;
  std::optional<std::uint32_t> least;           // smallest size in bytes
  std::optional<std::array<double, 3>> pareto;  // location, scale, shape
  std::optional<std::string> histogram;         // name of the histogram file
  std::uint32_t pieces = 1;                     // draws summed into one size (YCSB's fieldcount)
  // Replaces each field of this object that `other` sets.
  void override_with(const SizeRequest& other);
};
// Parses "LOCATION,SCALE,SHAPE"; nullopt if the text has another form.
[[nodiscard]] std::optional<std::array<double, 3>> parse_pareto(std::string_view text);
// The distribution of sizes that `request` asks for, of values (or keys) of up to `most` bytes; null if all
// sizes equal `most`. `flag` is "key-size" or "value-size", with which error messages begin.
[[nodiscard]] Result<std::shared_ptr<const Sizes>> sizes_of(const SizeRequest& request, std::uint32_t most,
                                                            SizedData of, std::string_view flag);

// A load's specification. A field that the file leaves out stays empty, so that flags and defaults can fill
// it in.
struct WorkloadSpec {
  std::optional<OperationMix> mix;
  std::optional<DistributionSpec> distribution;
  std::optional<std::uint64_t> records;
  std::optional<std::uint64_t> operations;
  std::optional<std::uint32_t> key_size, value_size;  // bytes of the largest key and value
  SizeRequest key_sizes, value_sizes;
  std::optional<double> target_rate;     // operations a second of all clients together; 0: closed loop
  std::optional<std::uint32_t> threads;  // YCSB's threadcount: client workers in all
  std::optional<Nanos> duration;         // YCSB's maxexecutiontime
  std::optional<bool> verify;            // YCSB's dataintegrity
  KeyOrder key_order = KeyOrder::hashed;
  std::uint32_t zero_padding = 1;
  std::vector<std::string> notes;  // messages about ignored keys of the file, one for each key
};

// Converts YCSB properties, with YCSB's defaults for those not given. Scans are refused by name, because a
// hash index has no order.
[[nodiscard]] Result<WorkloadSpec> from_ycsb(const Properties& properties);

// Parses a YAML workload file with keys such as get, delete, insert, read_modify_write, distribution,
// zipf_theta, keys, key_size, value_size: the names of the command line's flags, with '_' or '-'.
[[nodiscard]] Result<WorkloadSpec> from_yaml(std::string_view text, std::string_view file);

// The keys of a YAML workload file, with their types, ranges and defaults.
[[nodiscard]] const std::vector<settings::Setting>& yaml_settings();

// Reads the files in order, later ones replacing keys of earlier ones, and then applies the overrides
// ("key=value"). A YAML file (.yaml or .yml) has to be the only file; any other file has YCSB properties.
[[nodiscard]] Result<WorkloadSpec> load_workload(const std::vector<std::string>& files,
                                                 const std::vector<std::string>& overrides);

// Checks that each share is within [0, 1] and that they sum to 1.
[[nodiscard]] Result<> check(const OperationMix& mix);

}  // namespace loch::workloads
