// The flags of `loch bench`: parsed, checked and filled in, before anything starts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/kv/protocol.h"
#include "common/settings/setting.h"
#include "workloads/driver.h"
#include "workloads/spec.h"

namespace loch::cli {

// The flags of a trace that is replayed, as they were given.
struct ReplayFlags {
  std::string file, format, preload, sizes;
  double speed = 0;
};

// Simulations are at most so long, in simulated seconds: a simulated cluster has work in every millisecond,
// even if nobody asks it for anything.
constexpr double longest_simulated_s = 3600;

// What `loch bench` was asked for. The defaults of flags are in their table (bench_flags.cc).
struct BenchOptions {
  std::string protocol, fabric, hardware;
  std::uint32_t nodes = 0, server_nodes = 0, clients = 0, servers = 0, window = 0;
  std::uint64_t keys = 0, max_keys = 0;
  std::uint32_t key_size = 0, value_size = 0;  // the largest
  workloads::SizeRequest key_request, value_request;
  std::shared_ptr<const workloads::Sizes> key_sizes, value_sizes;  // null: all have the size above
  workloads::KeyOrder key_order = workloads::KeyOrder::hashed;
  std::uint32_t zero_padding = 1;
  ReplayFlags replay;
  workloads::LoadConfig load;
  std::uint32_t repeats = 0;
  std::uint32_t background_workers = 0;
  std::string background_pin;
  std::uint32_t background_nodes = 0;  // 0: all
  std::uint32_t cores = 0;             // sim; 0: the profile's
  bool pin = true;
  std::string device;           // verbs; empty: the first with an active port
  std::uint32_t port = 0;       // verbs; 0: the first active one
  std::int32_t gid_index = -1;  // verbs; -1: by score
  bool verify_full = false;
  bool history_sync = false;
  std::uint64_t memory_bytes = 0;  // per node
  std::uint32_t kept_value_bytes = 0;
  std::string search;                 // a latency goal; empty: none
  std::optional<bool> scrub;          // not given: on if several processes run
  std::optional<Nanos> repair_after;  // not given: lost nodes are repaired only after the load
  bool dry_run = false;               // check everything, run nothing
  std::string workload_files, history, trace, faults, mutant, json, histogram;
  std::map<std::string, settings::Value> others;  // flags without a member of their own
  kv::Options protocol_options = kv::Options();
  std::vector<std::string> notes;  // about the workload file
  std::vector<std::string> argv;
};

// Everything after "bench". The error is one line, for exit status 2.
[[nodiscard]] Result<BenchOptions> parse_bench(const std::vector<std::string>& arguments,
                                               const kv::Registry& registry);

// The text of `bench --help` and `bench --help PROTOCOL`.
[[nodiscard]] Result<std::string> protocol_help(const kv::Registry& registry, const std::string& protocol);

// What deploy() is asked for.
[[nodiscard]] kv::DeployConfig deploy_config(const BenchOptions& options);
// The records that it is asked to hold.
[[nodiscard]] workloads::Records::Shape record_shape(const BenchOptions& options);
// The checks that need no fabric: shapes, memory, the protocol module's own.
[[nodiscard]] Result<> validate(const BenchOptions& options, const kv::Module& module);

// Splits "--set key=value" into what the flag "--key value" would give; '_' and '-' are the same.
[[nodiscard]] Result<std::pair<std::string, std::string>> split_setting(const std::string& text);

}  // namespace loch::cli
