// A deployed RACE table: its settings, the memory of the nodes that hold data, and the state of client
// workers, such as their free blocks.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/chunks/free_blocks.h"
#include "common/chunks/node.h"
#include "common/kv/counters.h"
#include "common/kv/further_loads.h"
#include "common/kv/variants.h"
#include "common/rpc/remote.h"
#include "race/layout.h"

namespace loch::race {

// The known-bad variants, which the tests have to find.
inline constexpr std::array<kv::KnownBad, 19> known_bad = {{
    {"no-second-read", "an INSERT commits without a second read (R2)", 2},
    {"skips-pending", "the second read looks for committed entries alone", 13},
    {"get-sees-pending", "a GET returns the value of a pending entry", 2},
    {"no-block-generation", "a block's generation is not compared (R5)", 44},
    {"no-generation", "words of a block that is used again are alike (R6)", 44},
    {"checksum-unread", "a torn block is read as it is", 0, "explore_suite_test"},
    {"link-error-frees", "a block whose link ended in an error is free (R16)", 202},
    {"update-error-fails", "an UPDATE that ended in an error is not done (R16)", 9},
    {"scrub-clears-all", "a scrub takes away what living clients insert", 980},
    {"header-unread", "a key is looked for where the directory says (R12)", 10},
    {"own-slot-unchecked", "an INSERT commits in a bucket that has moved (R8)", 187},
    {"inserts-while-moving", "an INSERT commits where a split has looked", 187},
    {"moves-unfrozen", "a split copies words that others change (R9)", 15},
    {"header-after-read", "a split looks before its header is seen (R8)", 45},
    {"moved-before-copied", "a bucket's entries count as moved before they are copied (R11)", 10},
    {"put-without-look", "a PUT does not look whether its key is there (R4)", 1},
    {"scrub-leaves-pending", "a scrub leaves what dead clients were inserting (R15)", 12},
    {"scrub-leaves-locks", "a scrub leaves the locks of dead clients (R15)", 45},
    {"chunk-given-twice", "a chunk whose ALLOC is repeated is another client's too", 0, "chunks_test"},
}};
using Flaw = kv::Flaw<known_bad>;

// Settings of a deployment, which follow from its options (module.cc).
struct Settings {
  kv::DeployConfig config;
  // The differences between the variants of the design (hardened, as published, known-bad).
  Flaw flaw;                     // none, or the known-bad variant
  bool is_pending_first = true;  // INSERT writes a pending entry, commits it if a second look finds no other
  bool has_generation = true;    // slots' words and blocks have a generation, which readers compare
  bool frees_blocks = true;      // a block that no slot names any more is used again
  // As SMART's artifact: a WRITE of one unit is inlined. Hardened, a DELETE leaves the block in the free
  // slot.
  bool is_published = false;
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
  [[nodiscard]] bool has(Flaw which) const { return flaw == which; }
};

// holds the buckets, and behind them the directory; accessed only by NICs after the preload
constexpr std::string_view table_region = "race.table";
constexpr std::string_view blocks_region = "race.blocks";  // blocks with key and value
// two blocks for each lane: to WRITE, and to READ into
constexpr std::string_view buffers_region = "race.buffers";
constexpr std::string_view buckets_region = "race.buckets";  // buckets_bytes for each lane, to READ into
constexpr std::uint64_t buckets_bytes = 1024;
constexpr std::string_view directory_region = "race.directory";  // of each worker, to READ a directory into

// A free block, which no slot names, by its offset in units of 64 bytes; and those of a worker on one node.
// In the published variant a client begins with millions of them.
using chunks::Block, chunks::FreeBlocks;

// A CAS from `before` to `after` that ended in an error and whose slot could not be read since, so that its
// outcome is unknown; and by kind (Step) how its outcome is settled.
struct Doubt {
  // take_back: free -> pending entry, or pending -> free. `before` is the pending entry, and `after` the
  // slot's word without it. If the slot still holds the entry, it is taken out.
  //
  // commit: pending -> committed; the words are those of take_back. If the slot still holds the pending
  // entry, that is taken out; if not, it was committed.
  //
  // update: entry -> another. The slot tells, or else the next reuse of one of the two blocks tells, because
  // it is reused by whoever took it out of the slot; the other block is this worker's.
  //
  // unlock: locked directory entry -> unlocked. The CAS is tried again.
  enum class Step : std::uint8_t { take_back, commit, update, unlock };
  Step step = Step::take_back;
  Slot slot;
  Word before = 0, after = 0;
};

struct Counters : kv::Counters {
  kv::Counter conflicts{*this, "conflicts"}, lost_swaps{*this, "lost_swaps"},
      false_fingerprints{*this, "false_fingerprints"}, other_generations{*this, "other_generations"},
      torn_blocks{*this, "torn_blocks"}, pending_met{*this, "pending_met"},
      withdrawn{*this, "inserts_withdrawn"}, ambiguous_swaps{*this, "ambiguous_swaps"},
      doubts{*this, "doubts"}, settled{*this, "doubts_settled"}, reconnects{*this, "reconnects"},
      no_block{*this, "puts_without_a_block"}, directory_reads{*this, "directory_reads"},
      splits{*this, "splits"}, buckets_moved{*this, "split_buckets"},
      entries_moved{*this, "split_entries_moved"}, split_ns{*this, "split_ns"};
};

constexpr std::uint8_t none = 0xFF;  // in WorkerState::directory: no subtable of this suffix is known

// State of a client worker on a RACE table; used only by the worker's own thread.
struct WorkerState final : chunks::Stock {
  explicit WorkerState(const Settings& of)
      : settings(of), free(of.config.serving_nodes()), directory(of.config.serving_nodes()) {}
  const Settings& settings;
  std::vector<rpc::Remote> table, blocks;  // indexed by serving node
  std::vector<FreeBlocks> free;            // indexed by serving node
  // by serving node and suffix: the subtable's depth, as the last READ of the directory found it; or `none`
  std::vector<std::vector<std::uint8_t>> directory;
  std::uint32_t locks = 0;  // locks that this worker has set so far
  std::deque<Doubt> doubts;
  Counters counters;
  // The suffix of the subtable in which a key is to be looked for first.
  [[nodiscard]] std::uint32_t home(const Places& places) const;
  [[nodiscard]] std::size_t left(fabric::NodeId node) const override { return free[node].size(); }
  void add(fabric::NodeId node, chunks::Chunk chunk) override;
  // Puts a block that no slot names to the end of the list of free blocks; a slot named it with this
  // generation, or never.
  void put_back(fabric::NodeId node, Block block);
  // Puts the block that the word names at the end of the list of free blocks; this worker took the word out
  // of its slot.
  void give(fabric::NodeId node, Word word);
};

struct NodeState {
  fabric::Region *table = nullptr, *blocks = nullptr;  // null on a node that only drives load
  fabric::Region *buffers = nullptr, *buckets = nullptr, *directory = nullptr;  // of a node that drives load
  std::vector<std::unique_ptr<WorkerState>> workers;
  std::unique_ptr<chunks::ChunkNode> chunks;  // null: clients do not ask for chunks
};

class RaceStore final : public kv::Store, public kv::FurtherLoads {
 public:
  explicit RaceStore(Settings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  // A server worker does nothing but give out chunks (runs of blocks that clients request); without chunks
  // there is no server worker.
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t /*index*/) override {
    return chunks::ChunkNode::manage(local(worker.node()).chunks.get(), &worker);
  }
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] bool has_background() const override {
    return settings_.is_pending_first || settings_.chunks;
  }
  [[nodiscard]] coro::Task<void> background(fabric::Worker& worker, const bool* done) override;
  [[nodiscard]] coro::Task<kv::Repair> scrub(fabric::Worker& worker, std::vector<kv::ClientId> dead) override;
  // Operations on a key need the key's node. After clients died with their node they may also need a scrub
  // (repair), because a dead client may have left a pending entry of any key.
  [[nodiscard]] bool needs(kv::Key key, fabric::NodeId node,
                           std::optional<std::uint32_t> /*server*/) const override {
    return settings_.config.drives(node) || settings_.shape.places(key).node == node;
  }
  [[nodiscard]] std::vector<std::string> audit(const std::vector<fabric::NodeId>& lost) const override;
  [[nodiscard]] std::map<std::string, double> counters() const override;
  [[nodiscard]] std::vector<std::string_view> levels() const override {
    return {"doubts_waiting", "blocks_free", "blocks_not_given"};
  }

  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] fabric::Fabric& fabric() const { return *fabric_; }
  [[nodiscard]] NodeState& local(fabric::NodeId node) { return nodes_.at(node); }
  // Whether one READ may see the header and a slot of a bucket at different instants.
  [[nodiscard]] bool tears_buckets() const { return fabric_->capabilities().untorn_bytes < bucket_bytes; }

 private:
  const Settings settings_;
  fabric::Fabric* fabric_ = nullptr;
  std::map<fabric::NodeId, NodeState> nodes_;
};

}  // namespace loch::race
