// The table of `loch bench`'s flags, and how a flag's value is stored into BenchOptions.
#include "app/cli/bench_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/fabric/sim/cpu_profile.h"
#include "workloads/distribution.h"
#include "workloads/sizes.h"
#include "workloads/trace.h"

namespace loch::cli {
namespace {

using settings::also;
using settings::choice;
using settings::listed;
using settings::of;
using settings::Setting;
using settings::shown;
using settings::Type;

constexpr double forever_many = 1ULL << 60;

// Makes a function that returns the address of a BenchOptions member; `expression` names the member.
#define LOCH_PLACE(expression) [](BenchOptions& o) -> FlagPlace { return &o.expression; }

// Flags of nodes, worker threads and processes.
std::vector<BenchFlag> cluster_flags() {
  return {
      {.setting = listed(shown(of(Type::text, "protocol", "nessie", "a protocol"), "NAME"), "protocols"),
       .place = LOCH_PLACE(protocol)},
      {.setting = listed(shown(of(Type::text, "fabric", "sim", "sim, shm, verbs, ofi"), "NAME"), "fabrics"),
       .place = LOCH_PLACE(fabric)},
      {.setting =
           listed(shown(of(Type::file, "hardware", "connectx3-10gbe", "sim: hardware profile"), "NAME|FILE"),
                  "hardware"),
       .place = LOCH_PLACE(hardware),
       .is_recorded = false},
      {.setting = shown(of(Type::text, "hardware-set", "",
                           "sim: other values for constants of the profile, nic.pipeline=120,pcie.read=480"),
                        "KEY=VALUE,…"),
       .place = LOCH_PLACE(hardware_set),
       .is_recorded = false},
      {.setting =
           of(Type::integer, "nodes", "3", "nodes of the cluster; of a real one at most 1024", 1, 4096),
       .place = LOCH_PLACE(nodes)},
      {.setting = of(Type::integer, "server-nodes", "0",
                     "the first N nodes only serve and the others only drive load; 0: every node does both",
                     0, 4095),
       .place = LOCH_PLACE(server_nodes)},
      {.setting = of(Type::integer, "clients", "1", "client workers per node", 1, 4096),
       .place = LOCH_PLACE(clients)},
      {.setting =
           of(Type::integer, "servers", "", "server workers per node (the protocol's own default)", 0, 4096),
       .place = LOCH_PLACE(servers)},
      {.setting =
           shown(of(Type::integer, "window", "1", "outstanding operations per client worker", 1, 4096), "W"),
       .place = LOCH_PLACE(window)},
      {.setting = of(Type::size, "memory", "", "memory per node (sim 64G; else what is free)", 1, 1ULL << 50),
       .place = LOCH_PLACE(memory_bytes),
       .is_recorded = false},
  };
}

// Flags of the records and of the operations on them.
std::vector<BenchFlag> data_flags() {
  std::vector<BenchFlag> flags = {
      {.setting = of(Type::integer, "keys", "100000", "preloaded records, whole cluster", 1, 1ULL << 40),
       .place = LOCH_PLACE(keys)},
      {.setting = of(Type::integer, "max-keys", "",
                     "records that the table is made for (keys, and what inserts may add)", 1, 1ULL << 40),
       .place = LOCH_PLACE(max_keys)},
      {.setting = of(Type::size, "full-data", "0",
                     "sim: bytes of keys and values a node of the data set of which --keys are a part: NICs "
                     "translate addresses of all of it (0: --keys are all)",
                     0, 1ULL << 50),
       .place = LOCH_PLACE(full_data),
       .is_recorded = false},
      {.setting = of(Type::size, "key-size", "128", "bytes of a key", 1, 1 << 30),
       .place = LOCH_PLACE(key_size)},
      {.setting = of(Type::size, "value-size", "1K", "bytes of a value: 512, 16K, 1M", 1, 1 << 30),
       .place = LOCH_PLACE(value_size)},
      {.setting = shown(of(Type::real, "get", "0.9", "share of GETs; the rest are PUTs", 0, 1), "SHARE"),
       .place = LOCH_PLACE(load.mix.get),
       .is_derived = true,
       .is_recorded = false,
       .is_of_load = true},
      {.setting = shown(of(Type::integer, "multi-get", "1",
                           "keys that one GET operation asks for at once, each on a lane of its own", 1, 256),
                        "N"),
       .place = LOCH_PLACE(load.multi_get)},
      {.setting = shown(of(Type::real, "delete", "0", "share of DELETEs", 0, 1), "SHARE"),
       .place = LOCH_PLACE(load.mix.remove),
       .is_derived = true,
       .is_recorded = false,
       .is_of_load = true},
      {.setting = shown(of(Type::real, "insert-if-absent", "0",
                           "share of INSERTs: PUTs that take effect only where the key has no value", 0, 1),
                        "SHARE"),
       .place = LOCH_PLACE(load.mix.insert_if_absent),
       .is_derived = true,
       .is_recorded = false,
       .is_of_load = true},
      {.setting = choice(
           "distribution", workloads::distribution_names(),
           "zipfian: YCSB's; zipfian-n: over the real n; also latest, hotspot, exponential, sequential, "
           "locality",
           "NAME"),
       .place = nullptr,
       .is_derived = true,
       .is_recorded = false,
       .is_of_load = true},
      {.setting =
           shown(of(Type::real, "zipf-theta", "0.99", "skew of zipfian-n and latest", 1e-6, 10), "THETA"),
       .place = LOCH_PLACE(load.distribution.zipf_theta),
       .is_of_load = true},
      {.setting =
           of(Type::integer, "zipf-items", "0",
              "zipfian-n: number of ranks, of which those beyond --keys fall on the keys in turn; 0: as "
              "many as --keys",
              0, 1e12),
       .place = LOCH_PLACE(load.distribution.zipf_items),
       .is_of_load = true},
      {.setting =
           shown(of(Type::real, "locality", "0.8",
                    "locality: share of accesses drawn from the node's own part of the keys, others from all",
                    0, 1),
                 "SHARE"),
       .place = LOCH_PLACE(load.distribution.locality),
       .is_of_load = true},
      {.setting =
           shown(of(Type::real, "hotspot-data", "0.2", "hotspot: share of the records that are hot", 0, 1),
                 "SHARE"),
       .place = LOCH_PLACE(load.distribution.hotspot_data),
       .is_recorded = false,
       .is_of_load = true},
      {.setting = shown(of(Type::real, "hotspot-operations", "0.8",
                           "hotspot: share of the operations that go there", 0, 1),
                        "SHARE"),
       .place = LOCH_PLACE(load.distribution.hotspot_operations),
       .is_recorded = false,
       .is_of_load = true},
      {.setting = of(Type::file, "workload", "", "YAML workload, or YCSB property file(s) unchanged"),
       .place = nullptr,
       .is_derived = true,
       .is_list = true,
       .is_recorded = false,
       .experiment_key = "workload_file"},
      {.setting = of(Type::file, "property-file", "", "a YCSB property file; later ones win"),
       .place = nullptr,
       .is_derived = true,
       .is_list = true,
       .is_recorded = false,
       .experiment_key = "-",
       .letter = 'P'},
      {.setting = shown(of(Type::text, "property", "", "a YCSB property; wins over files"), "KEY=VALUE"),
       .place = nullptr,
       .is_derived = true,
       .is_list = true,
       .is_recorded = false,
       .experiment_key = "-",
       .letter = 'p'},
  };
  return flags;
}

// Flags for keys or values of different sizes; `what` is "key" or "value".
std::vector<BenchFlag> size_flags(const std::string& what, const std::string& of_put, const char* least) {
  const std::string name = what + "-size";
  std::vector<BenchFlag> flags;
  const auto add = [&flags](Setting setting) {
    flags.push_back(
        {.setting = std::move(setting), .place = nullptr, .is_derived = true, .is_recorded = false});
  };
  add(choice(name + "-distribution", workloads::size_kind_names(),
             fmt::format("{}s of different sizes, of which --{} is the largest; etc, usr: Facebook's pools{}",
                         what, name, of_put),
             "NAME"));
  add(of(Type::size, name + "-min", least,
         fmt::format("bytes of the smallest {}; smaller draws are taken as this", what), 1, 1 << 30));
  add(shown(of(Type::text, name + "-pareto", "15,214.476,0.348238",
               "pareto: location and scale in bytes, and shape"),
            "L,S,K"));
  add(of(Type::file, name + "-histogram", "", "histogram: YCSB's file of sizes"));
  return flags;
}

// Flags that say when operations are issued, and for how long.
std::vector<BenchFlag> load_flags() {
  return {
      {.setting = shown(of(Type::real, "rate", "0",
                           "open loop: operations per second, whole cluster; 0: closed loop", 0, 1e12),
                        "OPS/S"),
       .place = LOCH_PLACE(load.rate),
       .is_of_load = true},
      {.setting = of(Type::duration, "think", "0ns",
                     "closed loop: CPU time that a client computes before each operation: 20us (spun where "
                     "it is real)"),
       .place = LOCH_PLACE(load.think),
       .is_of_load = true},
      {.setting = of(Type::duration, "pause", "0ns",
                     "closed loop: time that a window slot waits before each operation, while the client's "
                     "other slots go on and its core spins"),
       .place = LOCH_PLACE(load.pause),
       .is_of_load = true},
      {.setting = shown(of(Type::text, "active", "",
                           "closed loop: client workers of each node that are active, drawn anew for each "
                           "interval and the same for all nodes; others sleep: 36..95"),
                        "LO..HI"),
       .place = nullptr,
       .is_derived = true,
       .is_recorded = false,
       .is_of_load = true},
      {.setting =
           of(Type::duration, "active-every", "", "--active: the interval after which is drawn anew", 1),
       .place = LOCH_PLACE(load.active.every),
       .is_recorded = false,
       .is_of_load = true},
      {.setting = choice("arrivals", {"poisson", "fixed"}, "open loop: gaps between operations", "KIND"),
       .place = nullptr,
       .is_derived = true,
       .is_recorded = false,
       .is_of_load = true},
      {.setting = shown(of(Type::text, "search", "",
                           "the highest open-loop rate that meets p99:1000us, mean:20us, max:1ms …"),
                        "GOAL"),
       .place = LOCH_PLACE(search),
       .is_recorded = false,
       .experiment_key = "-"},
      {.setting = of(Type::duration, "warmup", "",
                     "before the measurement: 50ms, 10s (sim 1ms, shm 500ms; virtual time on sim)"),
       .place = LOCH_PLACE(load.warmup)},
      {.setting = of(Type::duration, "duration", "", "measurement window (sim 20ms, shm 5s)", 1),
       .place = LOCH_PLACE(load.duration)},
      {.setting = of(Type::integer, "operations", "", "measure so many operations instead of a duration", 1,
                     forever_many),
       .place = LOCH_PLACE(load.operations)},
      {.setting = of(Type::integer, "seed", "1", "decides every random draw"),
       .place = LOCH_PLACE(load.seed),
       .is_recorded = false},
      {.setting = of(Type::integer, "load-seed", "0",
                     "decides what the load and its workers draw on the preloaded cluster that --seed "
                     "decides; 0: --seed",
                     0, 1ULL << 53),
       .place = LOCH_PLACE(load_seed),
       .is_recorded = false,
       .is_of_load = true},
      {.setting = of(Type::integer, "repeats", "1",
                     "runs with seeds seed, seed+1, …; the result is then a list", 1, 10'000),
       .place = LOCH_PLACE(repeats),
       .experiment_key = "-"},
      {.setting = choice("at-end", {"finish", "abandon"},
                         "sim: operations under way when the measurement window ends: finish, or abandon "
                         "them 1 ms later, which saves time where they wait for each other",
                         "WHAT"),
       .place = LOCH_PLACE(at_end)},
      {.setting = of(Type::duration, "settle", "0ns",
                     "sim: clients spin so long before the warm-up, until background workers have spread "
                     "over the cores"),
       .place = LOCH_PLACE(load.settle),
       .is_of_load = true},
  };
}

// Flags of a trace that is replayed instead of a mix (docs/traces.md). The result's "replay" object records
// them, so its "config" does not.
std::vector<BenchFlag> replay_flags() {
  return {
      {.setting = of(Type::file, "trace-replay", "",
                     "replay a trace of requests instead of drawing from a mix: docs/traces.md"),
       .place = LOCH_PLACE(replay.file),
       .is_recorded = false},
      {.setting = choice(
           "trace-format", workloads::trace_format_names(),
           "Twitter's cache traces, CacheLib's kvcache traces, or the log of YCSB's basic binding", "FORMAT"),
       .place = LOCH_PLACE(replay.format),
       .is_recorded = false},
      {.setting =
           shown(of(Type::real, "trace-speed", "",
                    "the trace's arrival times, X times as fast; 0: as fast as the clients take operations "
                    "(1, or 0 where the trace has no times)",
                    0, 1e9),
                 "X"),
       .place = LOCH_PLACE(replay.speed),
       .is_recorded = false},
      {.setting =
           choice("trace-preload", workloads::trace_preload_names(),
                  "keys that are there at first: found (whose first operation reads, changes or removes "
                  "them), all, none",
                  "WHICH"),
       .place = LOCH_PLACE(replay.preload),
       .is_recorded = false},
      {.setting =
           choice("trace-sizes", {"own", "fixed"},
                  "own: the trace's sizes; fixed: every key has --key-size and every value --value-size "
                  "bytes",
                  "KIND"),
       .place = LOCH_PLACE(replay.sizes),
       .is_recorded = false},
  };
}

// Flags of the hardware profile and of background load.
std::vector<BenchFlag> machine_flags() {
  return {
      {.setting = also(
           "background-workers",
           of(Type::integer, "hogs", "0",
              "background CPU workers (SHA-256) per machine, of which a simulated node is one", 0, 10'000)),
       .place = LOCH_PLACE(background_workers)},
      {.setting = also("background-pin", choice("hog-pin", {"none", "shared", "separate", "clients"},
                                                "background workers: none (the kernel puts them), shared (on "
                                                "the server workers' cores), separate "
                                                "(on cores "
                                                "without a worker), clients (sim: on any core without a "
                                                "server worker); shm, verbs: shared and "
                                                "separate with --pin",
                                                "WHERE")),
       .place = LOCH_PLACE(background_pin)},
      {.setting = also("background-nodes",
                       of(Type::integer, "hog-nodes", "0",
                          "sim: the first N nodes alone have background workers; 0: all", 0, 4096)),
       .place = LOCH_PLACE(background_nodes)},
      {.setting = of(Type::integer, "cores", "0",
                     "sim: cores of a node that are in use, a socket's first; 0: the profile's", 0,
                     fabric::sim::most_cores),
       .place = LOCH_PLACE(cores)},
      {.setting =
           of(Type::integer, "threads", "",
              "sim: one run by N threads, each of which simulates a part of the nodes; the result is the "
              "same for every N (docs/simulator.md)",
              1, 64),
       .place = LOCH_PLACE(threads)},
      {.setting = choice(
           "doorbells", {"auto", "shared", "own"},
           "sim, verbs: the doorbell registers that the driver makes by default, which queue pairs get "
           "in turn and threads share, or one for each worker (sim: profiles with nic.own_doorbells; "
           "verbs: thread domains); auto: on sim shared, on verbs own as long as the device makes them",
           "WHICH"),
       .place = LOCH_PLACE(doorbells)},
      {.setting =
           shown(of(Type::text, "throttle", "off",
                    "READs, WRITEs and atomics that a client worker may have outstanding: off (no limit), "
                    "a number, or adaptive (SMART's: a limit for each node is found by trying)"),
                 "off|adaptive|N"),
       .place = LOCH_PLACE(throttle)},
      {.setting = of(Type::duration, "throttle-sample", "",
                     "adaptive throttling: how long each limit is tried (8ms; sim 20us)", 1000),
       .place = LOCH_PLACE(throttle_sample)},
      {.setting = choice("backoff", {"own", "none", "exponential", "limited", "throttled"},
                         "writes that lost a swap to another client: the protocol's own back-off, none, or "
                         "SMART's: exponential, limited by the share of retries, and with fewer coroutines "
                         "that write at once (protocols whose clients swap words)",
                         "KIND"),
       .place = LOCH_PLACE(backoff),
       .is_of_load = true},
      {.setting = of(Type::duration, "backoff-start", "1707ns",
                     "--backoff: the first wait, and the span of what is added to each at random", 1, 1e9),
       .place = LOCH_PLACE(conflicts.start),
       .is_of_load = true},
      {.setting = of(Type::duration, "backoff-epoch", "",
                     "limited, throttled: how often the share of retries is looked at (20ms; sim 1ms)", 1000),
       .place = LOCH_PLACE(conflicts.epoch),
       .is_of_load = true},
      {.setting = of(Type::real, "backoff-few", "0.1",
                     "limited, throttled: share of retries below which the bounds are relaxed", 0, 1),
       .place = LOCH_PLACE(conflicts.few),
       .is_of_load = true},
      {.setting = of(Type::real, "backoff-many", "0.5",
                     "limited, throttled: share of retries above which the bounds are tightened", 0, 1),
       .place = LOCH_PLACE(conflicts.many),
       .is_of_load = true},
      {.setting = of(Type::boolean, "pin", "",
                     "workers pinned to cores of their own (sim: true, shm: false, verbs: true if there are "
                     "enough cores and the device is not Soft-RoCE)"),
       .place = LOCH_PLACE(pin)},
      {.setting =
           shown(of(Type::text, "device", "",
                    "verbs: RDMA devices, NAME, NAME:PORT, HOST=NAME or SUBNET/BITS, by commas, or A+B "
                    "for two rails (the fastest in a network of all hosts): loch doctor"),
                 "NAME"),
       .place = LOCH_PLACE(device),
       .is_recorded = false},
      {.setting = of(Type::integer, "port", "", "verbs: port of the device (the fastest)", 1, 255),
       .place = LOCH_PLACE(port),
       .is_recorded = false},
      {.setting = of(Type::integer, "gid-index", "",
                     "verbs: GID of the port (the best: RoCE v2 over IPv4 first)", 0, 255),
       .place = LOCH_PLACE(gid_index),
       .is_recorded = false},
      {.setting = shown(
           of(Type::text, "pkey", "",
              "verbs: P_Key of the partition, such as 0x8001 (the first that all hosts are full members of)"),
           "P_KEY"),
       .place = LOCH_PLACE(pkey),
       .is_recorded = false},
      {.setting =
           of(Type::integer, "service-level", "0", "verbs: service level of packets, on InfiniBand", 0, 15),
       .place = LOCH_PLACE(service_level)},
      {.setting = of(
           Type::integer, "traffic-class", "",
           "verbs: traffic class of packets with a global header (the administrator's, else 106 on RoCE v2)",
           0, 255),
       .place = LOCH_PLACE(traffic_class),
       .is_recorded = false},
      {.setting = of(Type::integer, "flow-label", "0",
                     "verbs: flow label of packets with a global header; 0: by queue pair", 0, 1'048'575),
       .place = LOCH_PLACE(flow_label)},
      {.setting =
           of(Type::boolean, "assume-order", "false",
              "verbs: bytes arrive in order, and 64 aligned ones at once, though the devices do not say so"),
       .place = LOCH_PLACE(assume_order)},
      {.setting = of(Type::boolean, "post-send", "false",
                     "verbs: work requests are given to the device by ibv_post_send, though it has ibv_wr_*"),
       .place = LOCH_PLACE(post_send)},
      {.setting =
           shown(of(Type::text, "ofi-provider", "",
                    "ofi: provider of libfabric, such as tcp, sockets, shm, efa (the first of cxi, efa, "
                    "verbs;ofi_rxm and tcp that is here)"),
                 "NAME"),
       .place = LOCH_PLACE(ofi_provider),
       .is_recorded = false},
      {.setting = choice("ofi-order", {"waits", "provider"},
                         "ofi: what is behind a WRITE waits for its end where the provider keeps no order "
                         "(waits), or protocols that need the order are refused there (provider)",
                         "WHO"),
       .place = LOCH_PLACE(ofi_order)},
  };
}

// Flags of verification, of injected faults and of output files.
std::vector<BenchFlag> observation_flags() {
  return {
      {.setting = of(Type::duration, "server-work", "0ns",
                     "sim: CPU time that server workers are assumed to work on each request that they find, "
                     "beyond what its steps are charged",
                     0, 1e9),
       .place = LOCH_PLACE(server_work),
       .is_recorded = false},
      {.setting =
           of(Type::boolean, "service-times", "false",
              "counters service.* of each node: how long its server workers work on a request that they "
              "find in a request slot"),
       .place = LOCH_PLACE(service_times)},
      {.setting = of(Type::boolean, "verify", "false",
                     "check every GET's value (its stamp alone where values are elided)"),
       .place = LOCH_PLACE(load.verify)},
      {.setting =
           of(Type::boolean, "verify-full", "false", "verify, and keep every byte of every value in memory"),
       .place = LOCH_PLACE(verify_full),
       .is_recorded = false},
      {.setting = of(Type::output, "history", "", "record the history, for loch check"),
       .place = LOCH_PLACE(history),
       .is_recorded = false,
       .experiment_key = "-"},
      {.setting = choice("history-format", {"by-name", "text", "binary"},
                         "of the history; by-name: binary where the name ends in .bin, else text", "FORMAT"),
       .place = LOCH_PLACE(history_format),
       .is_recorded = false,
       .experiment_key = "-"},
      {.setting =
           of(Type::boolean, "history-sync", "false",
              "several processes: each operation of the history is on the disk before the next begins, "
              "for machines that crash"),
       .place = LOCH_PLACE(history_sync)},
      {.setting = of(Type::output, "trace", "", "Chrome trace JSON, opens in Perfetto"),
       .place = LOCH_PLACE(trace),
       .is_recorded = false,
       .experiment_key = "-"},
      {.setting = of(Type::output, "histogram", "", "latencies in HdrHistogram's percentile format"),
       .place = LOCH_PLACE(histogram),
       .is_recorded = false,
       .experiment_key = "-"},
      {.setting = of(Type::file, "faults", "", "YAML of faults to inject: loch list faults"),
       .place = LOCH_PLACE(faults)},
      {.setting = listed(shown(of(Type::text, "mutant", "", "a known-bad variant"), "NAME"), "mutants"),
       .place = LOCH_PLACE(mutant),
       .is_derived = true,
       .is_recorded = false},
      {.setting =
           of(Type::boolean, "scrub", "",
              "after the load, repair and report what lost nodes held (default: with several processes)"),
       .place = LOCH_PLACE(scrub),
       .is_recorded = false},
      {.setting =
           of(Type::duration, "repair-after", "",
              "repair what failures did while the load goes on, so long after each: scrub, or declare lost "
              "(after the load)"),
       .place = LOCH_PLACE(repair_after)},
      {.setting = of(Type::duration, "timeline", "",
                     "add a time series to the result, in bins of this width: 10ms; with --duration"),
       .place = LOCH_PLACE(load.timeline)},
      {.setting = of(
           Type::integer, "probe-keys", "0",
           "with --timeline: the last client worker of the last node drives no load, and writes N keys once "
           "per bin: how many cannot be written is in the time series",
           0, 1024),
       .place = LOCH_PLACE(load.probe_keys)},
      {.setting = of(Type::output, "json", "", "write the result here, not to standard output"),
       .place = LOCH_PLACE(json),
       .is_recorded = false,
       .experiment_key = "-"},
      {.setting = of(Type::boolean, "dry-run", "false", "check the flags and run nothing"),
       .place = LOCH_PLACE(dry_run),
       .is_recorded = false,
       .experiment_key = "-"},
      {.setting = shown(of(Type::text, "set", "", "the same as --KEY VALUE"), "KEY=VALUE"),
       .place = nullptr,
       .is_derived = true,
       .is_list = true,
       .is_recorded = false,
       .experiment_key = "-"},
  };
}

#undef LOCH_PLACE

}  // namespace

const std::vector<BenchFlag>& bench_flags() {
  static const std::vector<BenchFlag> all = [] {
    std::vector<BenchFlag> flags;
    for (auto part : {cluster_flags(), data_flags(), size_flags("key", "", "8"),
                      size_flags("value", "; a PUT draws a new one", "1"), load_flags(), replay_flags(),
                      machine_flags(), observation_flags()})
      std::ranges::move(part, std::back_inserter(flags));
    return flags;
  }();
  return all;
}

settings::Command bench_command() {
  settings::Command command{
      .name = "bench",
      .usage = {"[flags]", "--help PROTOCOL"},
      .about =
          "Runs one point: a cluster under one load. Prints a summary on a terminal, and else the result as "
          "JSON. --help PROTOCOL prints that protocol's options, which are flags too.",
      .statuses = {{"0", "it ran"},
                   {"1", "a value was wrong, or it ended in a deadlock or at its deadline"},
                   {"2", "bad input"},
                   {"130", "interrupted"}},
      .example = "bench --protocol herd --nodes 4 --clients 3 --servers 1 --get 0.95 --duration 20ms"};
  for (const BenchFlag& flag : bench_flags())
    command.flags.push_back({.setting = flag.setting, .is_list = flag.is_list, .letter = flag.letter});
  return command;
}

const BenchFlag* find_bench_flag(std::string_view name) {
  for (const BenchFlag& flag : bench_flags()) {
    if (flag.setting.key == name ||
        std::ranges::find(flag.setting.aliases, name) != flag.setting.aliases.end())
      return &flag;
  }
  return nullptr;
}

std::string experiment_key(const BenchFlag& flag) {
  if (flag.experiment_key == "-") return {};
  std::string key = flag.experiment_key.empty() ? flag.setting.key : flag.experiment_key;
  std::ranges::replace(key, '-', '_');
  return key;
}

void store(const BenchFlag& flag, const settings::Value& value, BenchOptions& options) {
  if (flag.place == nullptr)
    options.others[flag.setting.key] = value;
  else
    settings::store(flag.place(options), value);
}

std::optional<settings::Value> stored(const BenchFlag& flag, BenchOptions& options) {
  if (flag.place == nullptr) {
    const auto found = options.others.find(flag.setting.key);
    return found == options.others.end() ? std::nullopt : std::optional(found->second);
  }
  return settings::stored(flag.place(options));
}

}  // namespace loch::cli
