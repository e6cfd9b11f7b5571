// A deployed RACE table: the memory of the nodes that hold data, and the state of client workers, such as
// their free blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/chunks/node.h"
#include "common/rpc/remote.h"
#include "race/settings.h"

namespace loch::race {

// holds the buckets, and behind them the directory; accessed only by NICs after the preload
constexpr std::string_view table_region = "race.table";
constexpr std::string_view blocks_region = "race.blocks";  // blocks with key and value
constexpr std::string_view buffers_region =
    "race.buffers";  // two blocks for each lane: to WRITE, and to READ into
constexpr std::string_view buckets_region = "race.buckets";  // buckets_bytes for each lane, to READ into
constexpr std::uint64_t buckets_bytes = 1024;
constexpr std::string_view directory_region = "race.directory";  // of each worker, to READ a directory into

// A free block, which no slot names, and the generation that its next use gives it.
struct Block {
  std::uint64_t number = 0;  // offset in the node's blocks, in units of 64 bytes
  std::uint32_t generation = 0;
};

// The free blocks of one worker on one node, in the order in which they became free. Consecutive blocks that
// became free together are stored as one run, because in the published variant a client begins with millions
// of them.
class FreeBlocks {
 public:
  // Adds `count` consecutive blocks of generation 0, each of `units` times 64 bytes; `first` is the first
  // one's number.
  void add_run(std::uint64_t first, std::uint64_t count, std::uint64_t units) {
    if (count > 0) runs_.push_back({{first, 0}, count, units});
    size_ += count;
  }
  void add(Block block) {
    runs_.push_back({block, 1, 0});
    ++size_;
  }
  [[nodiscard]] std::optional<Block> take_oldest();
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Calls `tell` with each free block, oldest first.
  template <typename Tell>
  void for_each(Tell tell) const {
    for (const Run& run : runs_) {
      for (std::uint64_t i = 0; i < run.count; ++i)
        tell(Block{run.first.number + i * run.units, run.first.generation});
    }
  }

 private:
  struct Run {
    Block first;
    std::uint64_t count = 0, units = 0;  // Block::number grows by `units` from one block to the next
  };
  std::deque<Run> runs_;
  std::uint64_t size_ = 0;
};

// A CAS that ended in an error and whose slot could not be read since, so that its outcome is unknown; and by
// kind (Step) how its outcome is settled.
struct Doubt {
  enum class Step : std::uint8_t {
    // free -> pending entry: if the slot holds the entry, it is taken out again
    link,
    // pending -> committed: if the slot still holds the pending entry, that is taken out again
    commit,
    // pending -> free: the CAS is tried again
    take_back,
    // entry -> another: the slot tells, or else the next reuse of one of the two blocks tells, because it is
    // reused by whoever took it out of the slot; the other block is this worker's
    update,
    // locked directory entry -> unlocked: the CAS is tried again
    unlock,
  };
  Step step = Step::link;
  Slot slot;
  Word before = 0, after = 0;
  Word free = 0;  // for an INSERT: the slot's word before the pending entry
};

struct Counters {
  std::uint64_t conflicts = 0, lost_swaps = 0, false_fingerprints = 0, other_generations = 0, torn_blocks = 0,
                pending_met = 0, withdrawn = 0, ambiguous_swaps = 0, doubts = 0, settled = 0, reconnects = 0,
                no_block = 0, directory_reads = 0, splits = 0, buckets_moved = 0, entries_moved = 0,
                split_ns = 0;
};

constexpr std::uint8_t none = 0xFF;

// State of a client worker on a RACE table; used only by the worker's own thread.
struct WorkerState final : chunks::Stock {
  explicit WorkerState(const Settings& of);
  const Settings& settings;
  std::vector<rpc::Remote> table, blocks;  // indexed by serving node
  std::vector<FreeBlocks> free;            // indexed by serving node
  // by serving node and suffix: the subtable's depth, as the last READ of the directory found it; or `none`
  std::vector<std::vector<std::uint8_t>> directory;
  std::uint32_t locks = 0;  // locks that this worker has set so far
  std::deque<Doubt> doubts;
  Counters counters;
  // The suffix of the subtable in which a key is to be looked for first.
  [[nodiscard]] std::uint32_t home(const Shape& shape, const Places& places) const;
  [[nodiscard]] std::size_t left(fabric::NodeId node) const override { return free[node].size(); }
  void add(fabric::NodeId node, chunks::Chunk chunk) override;
  // Takes the oldest free block of the node; none: every block is in use.
  [[nodiscard]] std::optional<Block> take(fabric::NodeId node);
  // Puts a block that no slot ever named back, to the end of the list of free blocks.
  void put_back(fabric::NodeId node, Block block);
  // Puts the block that the word names at the end of the list of free blocks; this worker took the word out
  // of its slot.
  void give(fabric::NodeId node, Word word);
};

struct NodeState {
  fabric::Region* table = nullptr;  // null on a node that only drives load
  fabric::Region* blocks = nullptr;
  fabric::Region* buffers = nullptr;
  fabric::Region* buckets = nullptr;
  fabric::Region* directory = nullptr;
  std::vector<std::unique_ptr<WorkerState>> workers;
  std::unique_ptr<chunks::ChunkNode> chunks;  // null: clients do not ask for chunks
};

class RaceStore final : public kv::Store {
 public:
  explicit RaceStore(std::unique_ptr<const Settings> settings) : settings_(std::move(settings)) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] bool has_background() const override {
    return settings_->rules.is_pending_first || settings_->chunks;
  }
  [[nodiscard]] coro::Task<void> background(fabric::Worker& worker, const bool* done) override;
  [[nodiscard]] coro::Task<kv::Repair> scrub(fabric::Worker& worker, std::vector<kv::ClientId> dead) override;
  [[nodiscard]] bool needs(kv::Key key, fabric::NodeId node,
                           std::optional<std::uint32_t> server) const override;
  [[nodiscard]] std::vector<std::string> audit(const std::vector<fabric::NodeId>& lost) const override;
  [[nodiscard]] std::map<std::string, double> counters() const override;

  [[nodiscard]] const Settings& settings() const { return *settings_; }
  [[nodiscard]] fabric::Fabric& fabric() const { return *fabric_; }
  [[nodiscard]] NodeState& local(fabric::NodeId node) { return nodes_.at(node); }
  // Whether one READ may see the header and a slot of a bucket at different instants.
  [[nodiscard]] bool tears_buckets() const { return fabric_->capabilities().untorn_bytes < bucket_bytes; }

 private:
  [[nodiscard]] coro::Task<void> settle(fabric::Worker* worker, const bool* done);
  [[nodiscard]] Result<> place(const kv::Dataset& data, std::uint64_t record,
                               std::map<fabric::NodeId, std::uint64_t>& placed);

  std::unique_ptr<const Settings> settings_;
  fabric::Fabric* fabric_ = nullptr;
  std::map<fabric::NodeId, NodeState> nodes_;
};

}  // namespace loch::race
