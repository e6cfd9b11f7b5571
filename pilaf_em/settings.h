// One deployment of Pilaf, decided: options parsed, sizes worked out, combinations checked. The same on
// every node and constant while it runs.
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
  pilaf,     // GET by READ
  pilaf_vo,  // verb messages only
  em_opt,    // HERD's optimistic emulation of Pilaf: the READs and messages, and no store behind them
};

// Rules of the hardened protocol; each can be switched off: holes of the published text, and known-bad
// variants (mutants.cc).
struct Rules {
  bool confirms_misses = true;   // P1: a miss is confirmed by the version word
  bool resets_rank = true;       // P2: a GET starts over at rank 0 in a new table
  bool drops_duplicates = true;  // P3: a repeated PUT or DELETE is executed once
  // Mutants.
  bool checks_extent = true;
  bool compares_keys = true;
  bool moves_backwards = true;
  bool brackets_moves = true;  // the version word is odd while entries are moved
  bool closes_tables = true;   // growth tells the clients
  bool replies_late = true;    // a reply follows its PUT
  bool checks_guard = true;
  bool poisons = true;                // an extent that is freed is made to fail its checksum
  bool awaits_even = true;            // a miss is confirmed from an even version on
  bool follows_epoch = true;          // a reply of another epoch makes the next GET ask the root
  bool renews_keys = true;            // the regions of a node that restarted are looked up anew
  bool inserts_in_two_steps = false;  // an INSERT is a GET and then, if that finds nothing, a PUT
  bool serves_lost = false;           // a server that came back empty serves before it is declared lost
  bool timeouts_are_none = false;     // an operation without an answer says that it did nothing
};
// False: there is no such mutant.
[[nodiscard]] bool apply_mutant(std::string_view name, Rules& rules, rpc::MessageFlaws& flaws);

struct Settings {
  kv::DeployConfig config;
  System system = System::pilaf;
  Rules rules;
  std::uint32_t server_nodes = 1;
  std::uint32_t shards = 1;  // server_nodes times servers per node

  std::uint32_t hash_functions = 3;
  std::uint64_t first_slots = 0;     // of a shard's table
  std::uint64_t slots_reserved = 0;  // of all tables that a shard will ever have
  double table_growth = 2;           // a table of n slots is followed by one of table_growth * n + 1
  std::uint32_t hops = 32;           // entries that one insertion may move
  bool updates_in_place = true;
  bool guards_last = false;  // a bucket is changed where it lies, its guard computed and written after that
  std::uint64_t extents_start = 0, extents_most = 0;  // bytes of a shard
  double slack = 1.25;                                // room for longer values later
  std::uint32_t capacity = 0;                         // bytes that a GET READs: slack (k + v)
  std::uint64_t block = 0, least_block = 0;           // of the allocator

  std::uint32_t attempts = 0;  // attempts of one GET
  Nanos reconnect_timeout = 0;
  Nanos step_pause = 0;
  double emulated_reads = 1.6;
  rpc::MessageShape messages;

  std::string log_path;  // empty: no log
  LogSync log_sync = LogSync::async;
  bool repairs_log = false;
  double log_disk = 0;  // bytes a second of a modelled disk; 0: none

  [[nodiscard]] std::uint32_t kept() const {  // bytes of a value that memory keeps
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
  // The shard of a key: by a hash of its own, so that it says nothing about the slots.
  [[nodiscard]] std::uint32_t shard_of(kv::Key key) const;
  // The hash functions of a table of `slots` slots.
  [[nodiscard]] cuckoo::HashFamily family(std::uint64_t slots) const;
  // The bytes of a lane's landing buffer: an extent, then a bucket and a root.
  [[nodiscard]] std::uint64_t landing_stride() const {
    return (std::uint64_t{capacity} + 63) / 64 * 64 + 128;
  }
  [[nodiscard]] std::uint64_t landing_bucket() const { return landing_stride() - 128; }
  [[nodiscard]] std::uint64_t landing_root() const { return landing_stride() - 64; }
};

constexpr std::uint32_t table_head = 64;  // the root, before the tables

[[nodiscard]] std::vector<kv::OptionSpec> option_specs(std::string_view protocol);
[[nodiscard]] System system_of(std::string_view protocol, const kv::Options& options);
[[nodiscard]] Rules rules_of(const kv::Options& options);
// Refuses impossible combinations with one line that names the flag.
[[nodiscard]] Result<std::unique_ptr<const Settings>> decide(std::string_view protocol,
                                                             const kv::DeployConfig& config,
                                                             const kv::Options& options,
                                                             std::string_view mutant);

}  // namespace loch::pilaf
