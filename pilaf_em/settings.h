// The settings of one deployment of Pilaf: parsed options, derived sizes, checked combinations. Equal on
// every node and constant during a run.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/cuckoo/hash_family.h"
#include "common/kv/options.h"
#include "common/kv/protocol.h"
#include "common/rpc/message_channel.h"
#include "pilaf_em/log.h"

namespace loch::pilaf {

enum class System : std::uint8_t {
  pilaf,     // Pilaf: GETs by READs, other operations by messages
  pilaf_vo,  // Pilaf-VO: all operations by messages
  em_opt,    // HERD's optimistic emulation of Pilaf: the READs and messages, without a store
};

// Rules that fix the known faults of the published protocol (P1 to P3 in docs/protocols/pilaf.md), and rules
// that known-bad variants break; each can be switched off (mutants.cc).
struct Rules {
  // true: fixes known fault P1 (a key that is being moved is missed): a GET that does not find its key READs
  // the version and all buckets again
  bool confirms_misses = true;
  // true: fixes known fault P2 (candidates are skipped): after growth a GET starts at its key's first bucket
  // again
  bool resets_rank = true;
  // true: fixes known fault P3 (a PUT overwrites a newer one): a repeated PUT or DELETE is executed only once
  bool drops_duplicates = true;
  // The rules from here on are broken by known-bad variants only.
  bool checks_extent = true;
  bool compares_keys = true;
  bool moves_backwards = true;
  bool brackets_moves = true;  // true: the version word is odd while entries are moved
  // true: after growth the old table's buckets are marked closed, so that clients READ the root (which tells
  // where the new table lies) again
  bool closes_tables = true;
  bool replies_late = true;  // true: the server replies to a PUT after applying it
  bool checks_guard = true;
  // true: the first byte of a freed extent (key and value) is changed, so that its checksum fails
  bool poisons = true;
  bool awaits_even = true;  // true: a miss counts as confirmed only if the version was even
  // true: a reply with a new epoch makes the next GET READ the root (the table's descriptor)
  bool follows_epoch = true;
  bool renews_keys = true;  // true: clients look up the regions (and rkeys) of a restarted node again
  bool inserts_in_two_steps = false;  // known-bad: an INSERT is a GET and, if that finds nothing, a PUT
  bool serves_lost = false;           // known-bad: a restarted node serves before it was declared lost
  bool timeouts_are_none = false;  // known-bad: an operation that got no reply reports that it had no effect
};
// Changes the rules or flaws to those of the mutant; false if there is no such mutant.
[[nodiscard]] bool apply_mutant(std::string_view name, Rules& rules, rpc::MessageFlaws& flaws);

struct Settings {
  kv::DeployConfig config;
  System system = System::pilaf;
  Rules rules;
  std::uint32_t server_nodes = 1;
  std::uint32_t shards = 1;  // number of shards: server nodes times servers per node
  // The hash function that chooses a key's shard.
  cuckoo::HashFamily choosing{{.nodes = 1, .slots_per_node = 1, .functions = 1}, 0};

  std::uint32_t hash_functions = 3;
  std::uint64_t first_slots = 0;     // initial number of slots of a shard's table
  std::uint64_t slots_reserved = 0;  // slots of all successive tables of a shard together
  double table_growth = 2;           // a table of n slots grows to table_growth * n + 1
  std::uint32_t hops = 32;           // most entries that one insertion may move
  bool updates_in_place = true;
  bool guards_last = false;  // write a bucket's fields first and its guard (checksum) when it is computed
  std::uint64_t extents_start = 0, extents_most = 0;  // bytes of a shard's extents, initially and at most
  double slack = 1.25;  // an extent's size relative to the item first stored in it
  // bytes of the largest extent (key and value), which a GET READs: slack * (key size + value size)
  std::uint32_t capacity = 0;
  std::uint64_t block = 0, least_block = 0;  // block sizes of the allocator in bytes

  std::uint32_t attempts = 0;  // attempts of one GET before it returns a conflict
  Nanos reconnect_timeout = 0;
  Nanos step_pause = 0;
  double emulated_reads = 1.6;
  rpc::MessageShape messages;

  std::string log_path;  // prefix of the logs' file names; empty: no log
  LogSync log_sync = LogSync::async;
  bool repairs_log = false;
  double log_disk = 0;  // rate of a modelled disk in bytes per second; 0: no disk is modelled

  // Bytes of a value that are kept in memory: fewer than the value has in a simulation that stores values in
  // part.
  [[nodiscard]] std::uint32_t kept() const {
    return config.kept_value_bytes < config.value_size ? config.kept_value_bytes : config.value_size;
  }
  [[nodiscard]] bool is_elided() const { return kept() < config.value_size; }
  [[nodiscard]] fabric::NodeId node_of(std::uint32_t shard) const {
    return static_cast<fabric::NodeId>(shard % server_nodes);
  }
  [[nodiscard]] std::uint16_t server_of(std::uint32_t shard) const {
    return static_cast<std::uint16_t>(shard / server_nodes);
  }
  [[nodiscard]] std::uint32_t shard_at(std::uint32_t node, std::uint32_t server) const {
    return server * server_nodes + node;
  }
  [[nodiscard]] std::uint64_t capacity_for(std::uint64_t bytes) const {
    return static_cast<std::uint64_t>(std::ceil(slack * static_cast<double>(bytes)));
  }
  // The shard of a key, by a separate hash that is independent of the slots' hashes.
  [[nodiscard]] std::uint32_t shard_of(kv::Key key) const;
  // The hash functions for a table with `slots` slots.
  [[nodiscard]] cuckoo::HashFamily family(std::uint64_t slots) const;
  // Bytes of the buffer into which one outstanding operation READs: an extent (key and value), a bucket and a
  // root (the table's descriptor).
  [[nodiscard]] std::uint64_t landing_stride() const {
    return (std::uint64_t{capacity} + 63) / 64 * 64 + 128;
  }
  [[nodiscard]] std::uint64_t landing_bucket() const { return landing_stride() - 128; }
  [[nodiscard]] std::uint64_t landing_root() const { return landing_stride() - 64; }
};

// bytes before the first table, which hold the root (the table's descriptor)
constexpr std::uint32_t table_head = 64;

[[nodiscard]] std::vector<kv::OptionSpec> option_specs(std::string_view protocol);
[[nodiscard]] System system_of(std::string_view protocol, const kv::Options& options);
[[nodiscard]] Rules rules_of(const kv::Options& options);
// Decides the settings. Refuses impossible combinations with one line that names the flag.
[[nodiscard]] Result<std::unique_ptr<const Settings>> decide(std::string_view protocol,
                                                             const kv::DeployConfig& config,
                                                             const kv::Options& options,
                                                             std::string_view mutant);

}  // namespace loch::pilaf
