// One deployment of Nessie, decided: options parsed, sizes worked out, combinations checked. The
// same on every node and constant while it runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/cuckoo/hash_family.h"
#include "common/kv/options.h"
#include "common/kv/protocol.h"
#include "nessie/layout.h"
#include "nessie/rules.h"
#include "nessie/word.h"

namespace loch::nessie {

// How a client learns that a READ or CAS has arrived (2017, 4.1.1).
enum class CompletionBy : std::uint8_t {
  watermark,  // unsignaled; polls the landing buffer's last byte
  cqe,        // signaled; polls the completion queue
};

struct Settings {
  kv::DeployConfig config;
  Layout layout = Layout::y2017;
  Rules rules;
  WordFormat format;
  EntryLayout entry;
  cuckoo::HashFamily family;
  std::uint32_t filter_bits = 7;

  std::uint64_t slots_per_node = 0;
  std::uint32_t entries_per_node = 0;  // DTEs
  std::uint64_t cache_entries = 0;     // a node; 0: no cache
  bool reads_header_first = false;     // multiple reads (2017, 4.3.2)
  CompletionBy completion = CompletionBy::watermark;
  bool stamps_lazily = true;  // recycling marks leave the operation's critical path

  Nanos expiry = 0;        // E (2017, 4.3.1)
  Nanos clock_margin = 0;  // skew allowed between any two nodes' clocks
  Nanos backoff_start = 0, backoff_cap = 0;
  std::uint32_t attempts = 0;       // per operation, including the first
  std::uint32_t migrate_depth = 0;  // keys that one PUT may move
  Nanos recycle_interval = 0;       // between two turns of the background work
  Nanos reconnect_timeout = 0;
  Nanos settle_timeout = 0;        // how long an ending worker keeps settling its unfinished work
  std::uint32_t spare_shares = 0;  // of the index: room on each node for those of lost nodes
  bool scrub_repairs = true;       // false: only counts what dead clients hold
  bool scrub_finds_leaks = false;

  [[nodiscard]] std::uint32_t functions() const { return family.shape().functions; }
  // The largest number of client lanes on a node: one a window slot, one per worker for its background work
  // and one per worker for repairs, which run alongside both.
  [[nodiscard]] std::uint32_t lanes() const { return config.client_workers * (config.window + 2); }
  [[nodiscard]] std::uint32_t background_lane(std::uint32_t worker) const {
    return config.client_workers * config.window + worker;
  }
  [[nodiscard]] std::uint32_t repair_lane(std::uint32_t worker) const {
    return config.client_workers * (config.window + 1) + worker;
  }
  // Bytes of one share of the index: what a node brings into the table.
  [[nodiscard]] std::uint64_t share_bytes() const { return slots_per_node * 8; }
  // Where record i's DTE lies: round robin over the nodes, whose workers own them round robin.
  [[nodiscard]] EntryId preloaded_entry(std::uint64_t record) const {
    return {static_cast<std::uint32_t>(record % config.nodes),
            static_cast<std::uint32_t>(record / config.nodes), 1};
  }
  [[nodiscard]] std::uint64_t preloaded_on(std::uint32_t node) const {
    return config.keys / config.nodes + (node < config.keys % config.nodes ? 1 : 0);
  }
};

// Everything that --help and YAML offer, with units, defaults and the paper's section.
[[nodiscard]] std::vector<kv::OptionSpec> option_specs();

// Refuses impossible combinations with one line that names the flag.
[[nodiscard]] Result<std::unique_ptr<const Settings>> decide(const kv::DeployConfig& config,
                                                             const kv::Options& options,
                                                             std::string_view mutant);

}  // namespace loch::nessie
