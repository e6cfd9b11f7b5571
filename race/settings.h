// Settings of a deployment of RACE hashing, derived from its options.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/chunks/plan.h"
#include "common/kv/protocol.h"
#include "race/layout.h"

namespace loch::race {

// A known-bad variant, which the tests have to find (listed in settings.cc).
enum class Flaw : std::uint8_t {
  none,
  no_second_read,
  skips_pending,
  get_sees_pending,
  no_block_generation,
  no_generation,
  checksum_unread,
  link_error_frees,
  update_error_fails,
  scrub_clears_all,
  header_unread,
  own_slot_unchecked,
  moves_unfrozen,
  header_after_read,
  inserts_while_moving,
  chunk_given_twice
};

// The differences between the variants of the design (hardened, as published, known-bad).
struct Rules {
  bool is_pending_first = true;  // INSERT writes a pending entry, commits it if a second look finds no other
  bool has_word_generation = true;
  bool has_block_generation = true;  // readers compare the block's generation with the slot's word
  bool frees_blocks = true;          // a block that no slot names any more is used again
  bool parks_blocks = true;          // a DELETE leaves the block in the free slot, for the next INSERT
  Flaw flaw = Flaw::none;
};

struct Settings {
  kv::DeployConfig config;
  Rules rules;
  Shape shape;
  BlockLayout block;
  std::optional<chunks::ChunkPlan> chunks;  // none: each client begins with all its blocks
  std::uint64_t preload_blocks = 0;         // blocks of each node for preloaded records
  std::uint64_t client_blocks = 0;          // blocks of each node for each client worker of the cluster
  Nanos put_cpu = 0;                        // CPU time of a PUT, on top of the hardware profile's costs
  std::uint32_t attempts = 0;
  double split_share = 1;
  Nanos backoff_start = 0, backoff_cap = 0, reconnect_timeout = 0, settle_interval = 0, settle_timeout = 0;

  [[nodiscard]] std::uint32_t clients() const { return config.driving_nodes() * config.client_workers; }
  [[nodiscard]] std::uint64_t blocks_per_node() const { return preload_blocks + clients() * client_blocks; }
  // Lanes (sets of buffers of an operation) of a node: for each worker one for each window slot, one for
  // background work and one for repairs.
  [[nodiscard]] std::uint32_t lanes() const { return config.client_workers * (config.window + 2); }
  [[nodiscard]] std::uint64_t directory_bytes() const { return 8 + (std::uint64_t{8} << shape.max_depth); }
  [[nodiscard]] bool has(Flaw flaw) const { return rules.flaw == flaw; }
};

[[nodiscard]] std::vector<kv::OptionSpec> option_specs();
[[nodiscard]] std::map<std::string, kv::Mutant> mutants();
// Derives the settings from the options. Refuses an impossible combination with an error of one line that
// names the option.
[[nodiscard]] Result<std::unique_ptr<const Settings>> decide(const kv::DeployConfig& config,
                                                             const kv::Options& options,
                                                             std::string_view mutant);

}  // namespace loch::race
