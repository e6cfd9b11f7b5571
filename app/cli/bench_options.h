// The flags of `loch bench`: parsed, checked and filled in, before anything starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/kv/protocol.h"
#include "workloads/driver.h"
#include "workloads/spec.h"

namespace loch::cli {

struct BenchOptions {
  std::string protocol = "nessie", fabric = "sim", hardware = "connectx3-10gbe";
  std::uint32_t nodes = 3, server_nodes = 0, clients = 1, servers = 0, window = 1;
  std::uint64_t keys = 100'000, max_keys = 0;
  std::uint32_t key_size = 128, value_size = 1024;
  workloads::KeyOrder key_order = workloads::KeyOrder::hashed;
  std::uint32_t zero_padding = 1;
  workloads::LoadConfig load;
  std::uint32_t repeats = 1;
  std::uint32_t hogs = 0;
  std::string hog_pin = "none";
  std::uint32_t hog_nodes = 0;  // 0: all
  std::uint32_t cores = 0;      // sim; 0: the profile's
  bool pin = true;
  std::string device;      // verbs; empty: the first with an active port
  std::uint32_t port = 0;  // verbs; 0: the first active one
  int gid_index = -1;      // verbs; -1: by score
  bool verify_full = false;
  std::uint64_t memory_bytes = 0;  // a node
  std::uint32_t kept_value_bytes = 0;
  std::string search;                 // a latency goal; empty: none
  std::optional<bool> scrub;          // not given: when several processes run
  std::optional<Nanos> repair_after;  // not given: after the load alone
  bool dry_run = false;               // check everything, run nothing
  std::string workload_files, history, trace, faults, mutant, json, histogram;
  kv::Options protocol_options = kv::Options();
  std::vector<std::string> notes;  // about the workload file
  std::vector<std::string> argv;
};

// Everything after "bench". The error is one line, for exit status 2. `fabric_ready` false skips
// what needs this build to have the fabric and the protocol (tests of the parser).
[[nodiscard]] Result<BenchOptions> parse_bench(const std::vector<std::string>& arguments,
                                               const kv::Registry& registry);

// A flag as `loch list keys` shows it: what an experiment calls it, what the command line does.
struct BenchKey {
  std::string key;        // "value_size"
  std::string flag;       // "value-size"
  std::string parameter;  // "BYTES"
  std::string help;       // unit and default
};
[[nodiscard]] std::vector<BenchKey> bench_keys();

// The text of `bench --help` and `bench --help PROTOCOL`.
[[nodiscard]] std::string bench_help(const kv::Registry& registry);
[[nodiscard]] Result<std::string> protocol_help(const kv::Registry& registry, const std::string& protocol);

// What deploy() is asked for.
[[nodiscard]] kv::DeployConfig deploy_config(const BenchOptions& options);
// What the fabric-free part of validation can refuse: shapes, memory, the module's own checks.
[[nodiscard]] Result<> validate(const BenchOptions& options, const kv::Module& module);

// Splits "--set key=value" into what the flag "--key value" would give; '_' and '-' are the same.
[[nodiscard]] Result<std::pair<std::string, std::string>> split_setting(const std::string& text);

}  // namespace loch::cli
