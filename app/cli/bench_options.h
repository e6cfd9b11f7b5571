// The options of `loch bench`: parsed, checked and completed with defaults before anything starts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/kv/conflicts.h"
#include "common/kv/protocol.h"
#include "common/settings/setting.h"
#include "workloads/driver.h"
#include "workloads/spec.h"

namespace loch::cli {

struct ReplayFlags {
  std::string file, format, preload, sizes;
  double speed = 0;
};

// Longest simulation in simulated seconds. Bounded because a simulated cluster executes events in every
// millisecond, even without load.
constexpr double longest_simulated_s = 3600;

// Everything that `loch bench` is asked to do. Defaults are in the table of flags (bench_flags.cc).
struct BenchOptions {
  std::string protocol, fabric, hardware;
  std::uint32_t nodes = 0, server_nodes = 0, clients = 0, servers = 0, window = 0;
  std::uint64_t keys = 0, max_keys = 0;
  std::uint32_t key_size = 0, value_size = 0;  // bytes of the largest key and value
  workloads::SizeRequest key_request, value_request;
  // key_sizes is null if every key has key_size bytes; value_sizes is null if every value has value_size
  // bytes
  std::shared_ptr<const workloads::Sizes> key_sizes, value_sizes;
  workloads::KeyOrder key_order = workloads::KeyOrder::hashed;
  std::uint32_t zero_padding = 1;
  ReplayFlags replay;
  workloads::LoadConfig load;
  std::uint64_t load_seed = 0;  // what the load draws on the cluster that load.seed decides; 0: load.seed
  std::uint32_t repeats = 0;
  std::uint32_t background_workers = 0;
  std::string background_pin;
  std::string doorbells;       // doorbell registers: "shared" or "own", and on verbs "auto"
  Nanos server_work = 0;       // CPU time that a server is assumed to work more on each request that it finds
  bool service_times = false;  // whether server workers measure how long they work on a request
  std::string throttle;        // limit of outstanding requests of a worker: "off", "adaptive", or a number
  Nanos throttle_sample = 0;   // adaptive `throttle`: ns for which each limit is tried
  // What clients do after a CAS that failed because another client had changed the word: "own" (as the
  // protocol does), or the name of a kv::ConflictConfig::Kind.
  std::string backoff;
  kv::ConflictConfig conflicts;        // limits and times of the back-off, from its other flags
  std::uint32_t background_nodes = 0;  // number of nodes with background workers; 0: all nodes
  std::string hardware_set;            // changes of the profile's constants, as change_constants() takes them
  std::uint32_t threads = 0;           // threads that simulate one run; 0: the simulator without parts
  std::uint32_t cores = 0;             // cores of a simulated node; 0: as in the hardware profile
  bool pin = true;
  bool pin_is_given = false;    // whether --pin was given; if not, `pin` is the fabric's default
  std::string device;           // verbs: device name; empty: the first with an active port
  std::uint32_t port = 0;       // verbs: port number; 0: the first active port
  std::int32_t gid_index = -1;  // verbs: GID index; -1: chosen by the fabric
  std::string pkey;             // verbs: P_Key of the partition; empty: chosen by the fabric
  std::uint32_t service_level = 0;
  std::int32_t traffic_class = -1;  // verbs: traffic class of packets; -1: chosen by the fabric
  std::uint32_t flow_label = 0;
  std::string
      ofi_provider;  // ofi: provider name; empty: the first of the preferred ones that this machine has
  // ofi: what happens if the provider does not order later requests after a WRITE. "waits": later requests
  // wait until the WRITE has completed; "provider": protocols that need the order are refused.
  std::string ofi_order = "waits";
  // true: verbs: assume that bytes arrive in order although the devices do not say so
  bool assume_order = false;
  bool post_send = false;
  bool verify_full = false;
  std::string history_format;  // text, binary, or by-name (the ending of the file's name decides)
  // true: with --history: writes each operation to the disk before the next begins
  bool history_sync = false;
  std::uint64_t memory_bytes = 0;  // memory per node in bytes
  // sim: bytes of keys and values that a node has in the data set of which the run simulates a part; 0: the
  // simulated records are all
  std::uint64_t full_data = 0;
  double data_scale = 1;  // how many times the simulated records that is
  std::uint32_t kept_value_bytes = 0;
  std::string search;         // latency goal such as "p99:1000us"; empty: no search
  std::optional<bool> scrub;  // repair the table after the load; nullopt: only if several processes run
  std::optional<Nanos> repair_after;  // ns from a failure to its repair; nullopt: after the load only
  std::string at_end;    // of operations under way when the measurement ends: "finish" or "abandon"
  bool dry_run = false;  // true: check all flags, run nothing
  std::string workload_files, history, trace, faults, mutant, json, histogram;
  std::map<std::string, settings::Value> others;  // values of flags without a member of their own
  kv::Options protocol_options = kv::Options();
  // Messages about ignored keys of the workload file, and about what is not verified.
  std::vector<std::string> notes;
  std::vector<std::string> argv;
};

// Parses a P_Key in the notation of --pkey, such as 0x8001.
[[nodiscard]] Result<std::uint16_t> parse_pkey(const std::string& text);

// Parses the arguments after "bench". An error is one line, for exit status 2.
[[nodiscard]] Result<BenchOptions> parse_bench(const std::vector<std::string>& arguments,
                                               const kv::Registry& registry);

// The text of `bench --help`, and of `bench --help PROTOCOL`.
[[nodiscard]] Result<std::string> protocol_help(const kv::Registry& registry, const std::string& protocol);

// The deployment that is passed to the protocol module's deploy().
[[nodiscard]] kv::DeployConfig deploy_config(const BenchOptions& options);
// The number of records that the store has to hold, and the sizes of their keys and values.
[[nodiscard]] workloads::Records::Shape record_shape(const BenchOptions& options);
// Checks that need no fabric: sizes, memory, and the protocol module's own checks.
[[nodiscard]] Result<> validate(const BenchOptions& options, const kv::Module& module);

// Whether the protocol is to write a file (an option of OptionRole::file has a value).
[[nodiscard]] bool writes_file(const BenchOptions& options);

// Splits the argument of "--set key=value" into flag name and value, as for "--key value"; '_' and '-' are
// the same.
[[nodiscard]] Result<std::pair<std::string, std::string>> split_setting(const std::string& text);

}  // namespace loch::cli
