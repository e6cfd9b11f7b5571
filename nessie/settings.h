// The settings of one deployment of Nessie: parsed options, computed sizes, checked combinations. They
// are the same on every node and do not change during a run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/chunks/plan.h"
#include "common/cuckoo/hash_family.h"
#include "common/kv/options.h"
#include "common/kv/protocol.h"
#include "nessie/layout.h"
#include "nessie/rules.h"
#include "nessie/word.h"

namespace loch::nessie {

// How a client learns that the response of a READ or CAS has arrived (Nessie, 2017, 4.1.1).
enum class CompletionBy : std::uint8_t {
  watermark,  // the request is unsignaled; the client polls the last byte of the buffer that gets the data
  cqe,        // the request is signaled; the client polls the completion queue
};

// The largest stride (distance of two entries) at which a repair READs the headers of neighbouring entries
// with one READ, their values included; of entries that lie further apart it READs each header by itself.
constexpr std::uint64_t largest_stride_of_ranges = 4096;
// Most bytes that one READ or WRITE of a repair transfers, and most bytes that the READs bring that a repair
// has outstanding at once.
constexpr std::uint64_t most_bytes_of_a_scan = 64 << 10;
constexpr std::uint64_t most_scan_bytes = 8 * most_bytes_of_a_scan;

struct Settings {
  kv::DeployConfig config;
  Layout layout = Layout::y2017;
  Rules rules;
  WordFormat format;
  EntryLayout entry;
  cuckoo::HashFamily family;
  std::uint32_t filter_bits = 7;

  std::uint64_t slots_per_node = 0;
  std::uint32_t entries_per_node = 0;  // number of data table entries (DTEs) on each node that holds data
  std::optional<chunks::ChunkPlan> chunks;  // how memory nodes give out entries; none: none are given out
  std::uint32_t client_entries = 0;         // entries of each memory node that each client begins with
  std::uint64_t cache_entries = 0;          // cached entries per node; 0: no cache
  bool reads_header_first = false;          // whether a header is read before its value (Nessie, 2017, 4.3.2)
  CompletionBy completion = CompletionBy::watermark;
  // whether the stamps (marks that entries left the index) are written in the background (true) or within the
  // operation (false)
  bool stamps_lazily = true;

  Nanos expiry = 0;        // ns for which an entry that left the index is not reused (Nessie, 2017, 4.3.1)
  Nanos clock_margin = 0;  // largest allowed skew between the clocks of two nodes
  Nanos backoff_start = 0, backoff_cap = 0;
  std::uint32_t attempts = 0;       // attempts per operation, including the first
  std::uint32_t migrate_depth = 0;  // largest number of keys that one PUT may move
  Nanos recycle_interval = 0;       // pause between two rounds of the background work
  Nanos reconnect_timeout = 0;
  Nanos settle_timeout = 0;        // how long an ending worker continues to complete its unfinished work
  std::uint32_t spare_shares = 0;  // areas on each node that can host index shares of lost nodes
  // true: the repair after clients' deaths (scrub) repairs what they left unfinished; false: it only counts
  // that
  bool scrub_repairs = true;
  bool scrub_finds_leaks = false;

  // Whether the tables lie on memory nodes, and clients WRITE entries there (nessie.placement remote).
  [[nodiscard]] bool is_remote() const { return config.server_nodes != 0; }
  [[nodiscard]] std::uint32_t functions() const { return family.shape().functions; }
  // Number of lanes (places for one outstanding operation) of a node: each client worker has one for each of
  // its window slots, one for its background work and one for repairs. All of them may be in use at once.
  [[nodiscard]] std::uint32_t lanes() const { return config.client_workers * (config.window + 2); }
  [[nodiscard]] std::uint32_t background_lane(std::uint32_t worker) const {
    return config.client_workers * config.window + worker;
  }
  // The lanes of a worker's repairs: the first is one of lanes(), the others come after all of those and READ
  // no more of an entry than its header.
  static constexpr std::uint32_t repairs_at_once = 8;
  [[nodiscard]] std::uint32_t repair_lane(std::uint32_t worker, std::uint32_t i = 0) const {
    return i == 0 ? config.client_workers * (config.window + 1) + worker
                  : lanes() + worker * (repairs_at_once - 1) + i - 1;
  }
  [[nodiscard]] std::uint32_t lanes_with_repairs() const {
    return lanes() + config.client_workers * (repairs_at_once - 1);
  }
  // Size in bytes of one share of the index, the part that each node contributes.
  [[nodiscard]] std::uint64_t share_bytes() const { return slots_per_node * 8; }
  // Whether a repair READs the headers of neighbouring entries with one READ.
  [[nodiscard]] bool reads_ranges() const { return entry.stride() <= largest_stride_of_ranges; }
  // Size in bytes of the buffer that each client worker has for its repairs' large READs and WRITEs.
  [[nodiscard]] std::uint64_t scan_bytes() const {
    const std::uint64_t data = reads_ranges() ? entries_per_node * entry.stride() : 0;
    return std::min(most_scan_bytes, std::max(share_bytes(), data));
  }
  // Offset in the region of these buffers at which the headers of the repair lanes from number lanes() on
  // land.
  [[nodiscard]] std::uint64_t header_place(std::uint32_t lane) const {
    const std::uint64_t behind = (config.client_workers * scan_bytes() + 63) / 64 * 64;
    return behind + (lane - lanes()) * ((entry.header_bytes() + 63ULL) / 64 * 64);
  }
  // The data table entry (DTE) of preloaded record number `record`: records are distributed round robin over
  // the nodes that hold data, and on each node over its workers.
  [[nodiscard]] EntryId preloaded_entry(std::uint64_t record) const {
    return {static_cast<std::uint32_t>(record % config.serving_nodes()),
            static_cast<std::uint32_t>(record / config.serving_nodes()), 1};
  }
  [[nodiscard]] std::uint64_t preloaded_on(std::uint32_t node) const {
    const std::uint32_t nodes = config.serving_nodes();
    return config.keys / nodes + (node < config.keys % nodes ? 1 : 0);
  }
  // Number of the first entry of a memory node that no preloaded record takes.
  [[nodiscard]] std::uint64_t first_spare() const {
    return (config.keys + config.serving_nodes() - 1) / config.serving_nodes();
  }
  [[nodiscard]] std::uint32_t clients() const { return config.driving_nodes() * config.client_workers; }
};

// All options for --help and YAML files, with units, defaults and the paper's section.
[[nodiscard]] std::vector<kv::OptionSpec> option_specs();

// Computes the settings; refuses impossible combinations with a one-line error that names the flag.
[[nodiscard]] Result<std::unique_ptr<const Settings>> decide(const kv::DeployConfig& config,
                                                             const kv::Options& options,
                                                             std::string_view mutant);

}  // namespace loch::nessie
