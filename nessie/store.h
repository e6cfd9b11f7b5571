// A deployed Nessie: the regions of this process's nodes, the state of their workers, and access to the
// tables of all other nodes.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "common/chunks/node.h"
#include "common/kv/further_loads.h"
#include "common/kv/word_cache.h"
#include "nessie/data_table.h"
#include "nessie/holdings.h"
#include "nessie/settings.h"

namespace loch::nessie {

struct InHand;

// index table entries (ITEs); accessed by NICs only
constexpr std::string_view index_region = "nessie.index";
constexpr std::string_view data_region = "nessie.data";        // data table entries (DTEs)
constexpr std::string_view landing_region = "nessie.landing";  // buffers for READs of entries, one per lane
// buffers from which entries are WRITTEN to memory nodes: a table entry per lane
constexpr std::string_view staging_region = "nessie.staging";
constexpr std::string_view words_region = "nessie.words";  // buffers for READs of words, lane_words per lane
// buffers for the large READs and WRITEs of repairs, Settings::scan_bytes for each client worker
constexpr std::string_view scan_region = "nessie.scan";

// Number of 8-byte words of each lane (of an outstanding operation, of background work or of the repair of a
// worker): buffers for READs of single words, and one of scan_words for READs of several words.
constexpr std::uint32_t lane_words = 128;
enum LaneWord : std::uint32_t {
  lane_index = 0,
  lane_swap = 1,
  lane_flush = 2,
  lane_stamp = 3,
  lane_pair = 4,
  lane_scan = 64
};
constexpr std::uint32_t scan_words = 64;

// A node as its peers reach it: its data region, and the incarnation of its memory.
struct Peer {
  fabric::RemoteRegion data;
  std::uint32_t epoch = 0;  // identifies the connection over which the region was looked up
  std::uint32_t incarnation = 0;
  Nanos not_before = 0;  // background work does not try to reach the node before this time
  // true: the node was declared lost and is not known to be back; or it is a memory node that came back empty
  bool is_gone = false;
};

// Where the share of the index that one node contributes lies now: on that node or, if its memory was lost,
// on the node that has taken the share over.
struct IndexShare {
  fabric::RemoteRegion index;  // index region of the node that hosts the share of the index
  std::uint64_t base = 0;      // byte offset of the share's first slot in that region
  bool is_void = false;        // true: the share of the index lies on no node for now
};

// A data table entry (DTE) that left the index, or may have left it, and whose stamp (the mark that tells the
// entry's owner that it left) is not written yet.
struct Unlinked {
  EntryId id;
  // time from which the entry may be reused, by the clock of the node that unlinked the entry
  Nanos deadline = 0;
  bool is_suspicion = false;
};

// Unfinished work of an operation whose CAS ended in an error and whose node could not be asked for the
// outcome: the operation's own word is, or may be, in the index (outage of a node, A3 in
// docs/protocols/nessie.md). The worker's background tries to complete or undo it until the node is back.
struct Unfinished {
  enum class Step : std::uint8_t {
    take_back,    // roll back: CAS from `own` to `back`, unless the index slot no longer holds `own`
    decide_move,  // a MIGRATE's copy is linked; whether its source slot was emptied is unknown
    finish_move,  // a MIGRATE's source slot is emptied; its copy is to be committed
    mark_valid,   // the WRITE that commits the entry, on a memory node, ended in an error
  };
  Step step = Step::take_back;
  cuckoo::Place place;
  Word own = 0, back = 0;
  EntryId entry;           // the entry that the word `own` names
  bool is_commit = false;  // true: for take_back: the CAS of unknown outcome was to commit `entry`
  // Entries that have left the index if the CAS of unknown outcome took place.
  std::array<EntryId, cuckoo::max_functions + 1> staged{};
  std::uint32_t staged_count = 0;
  cuckoo::Place source;  // source slot of a MIGRATE (move of a key)
  Word source_word = 0, tag = 0;
  std::uint8_t source_rank = 0;
  bool was_tried = false;  // true: an attempt ended without success; its CAS may have been executed
  Nanos not_before = 0;    // earliest time of the next attempt to complete or undo this work
  Nanos pause = 0;         // pause between two attempts, doubled each time
};

struct Counters {
  std::uint64_t conflicts = 0, rollbacks = 0, migrations = 0, migrations_undone = 0, stamps_local = 0,
                stamps_remote = 0, stamps_put_off = 0, previous_reads = 0, reconnects = 0,
                ambiguous_swaps = 0, expired_operations = 0, back_pressure = 0, false_filter_hits = 0,
                reverse_mismatches = 0, reserved_slots = 0, watch_timeouts = 0, left_unfinished = 0,
                settled = 0, suspicions = 0, doubts_cleared = 0, leaks_found = 0, lost_words_buried = 0,
                lost_values_met = 0, members_told = 0,
                removed_then_aborted = 0;  // attempts that removed a committed entry and then gave up
};

// The state of one client worker; only the worker's own thread uses it.
struct WorkerState {
  // Resets the worker's state after its node restarted with empty memory.
  void restart(fabric::Region& data, const Settings& settings, const DataTable::Share& share);
  WorkerState(fabric::Region& data, const Settings& settings, const DataTable::Share& share)
      : table(data, settings.entry, settings.format, share, settings.clock_margin, settings.rules, 0) {}
  DataTable table;                     // without entries if they lie on memory nodes
  std::unique_ptr<Holdings> holdings;  // null: entries lie on the clients' own nodes
  std::uint32_t next_node = 0;         // memory node on which the next entry is allocated
  std::vector<Peer> peers;             // indexed by node; looked up again after each reconnection
  std::vector<IndexShare> shares;      // indexed by the node that contributes the share of the index
  // version of the member table (nodes' incarnations) that peers and shares come from
  Word members_seen = 0;
  bool has_losses = false;            // whether any node was ever declared lost
  std::deque<Unlinked> unlinked;      // entries to be marked in the background as having left the index
  std::deque<Unfinished> unfinished;  // unfinished work, to be completed or undone in the background
  // entries in use by each of the worker's operations under way (lane.h)
  std::vector<const InHand*> in_hand;
  // true: the worker died: nothing uses this state, and its table entries stay as they are
  bool is_abandoned = false;
  Counters counters;
};

// The regions and workers of a node of this process.
struct NodeState {
  fabric::NodeId node = 0;
  fabric::Region* index = nullptr;    // null on a node that only drives load
  fabric::Region* data = nullptr;     // null on a node that only drives load
  fabric::Region* landing = nullptr;  // null on a memory node
  fabric::Region* words = nullptr;    // null on a memory node
  fabric::Region* staging = nullptr;  // null unless entries lie on memory nodes
  fabric::Region* scan = nullptr;     // null on a memory node
  fabric::Region* members = nullptr;
  std::unique_ptr<kv::WordCache> cache;  // cache of entries by index word; null: no cache
  // Caches of the node's former incarnations: operations of clients that died may still point into them.
  std::vector<std::unique_ptr<kv::WordCache>> former_caches;
  std::vector<std::unique_ptr<WorkerState>> workers;
  std::unique_ptr<chunks::ChunkNode> chunks;  // null: clients do not ask for chunks
};

class NessieStore final : public kv::Store, public kv::FurtherLoads {
 public:
  explicit NessieStore(std::unique_ptr<const Settings> settings) : settings_(std::move(settings)) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  // The main coroutine of a memory node's management worker, which gives out chunks.
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] bool has_background() const override { return true; }
  [[nodiscard]] coro::Task<void> background(fabric::Worker& worker, const bool* done) override;
  [[nodiscard]] coro::Task<kv::Repair> scrub(fabric::Worker& worker, std::vector<kv::ClientId> dead) override;
  [[nodiscard]] coro::Task<kv::Repair> declare_lost(fabric::Worker& worker,
                                                    std::vector<fabric::NodeId> lost) override;
  // Resets what this process stores about the node's workers after the node lost its memory. Operations of
  // the node's clients end in errors until the node is declared lost, which gives it a member table with its
  // new incarnation.
  [[nodiscard]] Result<> restart_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] std::vector<std::string> audit(const std::vector<fabric::NodeId>& lost) const override;
  [[nodiscard]] std::map<std::string, double> counters() const override;
  [[nodiscard]] std::vector<std::string_view> levels() const override {
    return {"unfinished_waiting", "stamps_waiting", "cache_entries", "blocks_not_given"};
  }

  [[nodiscard]] const Settings& settings() const { return *settings_; }
  [[nodiscard]] fabric::Fabric& fabric() const { return *fabric_; }
  // The state of a node of this process; aborts for any other node.
  [[nodiscard]] NodeState& local(fabric::NodeId node);
  // The new incarnation that a declaration in progress gives the node; none if no declaration of its loss
  // is in progress (declare.cc).
  [[nodiscard]] std::optional<std::uint32_t> declared_as(fabric::NodeId node) const;
  void begin_declaration(fabric::NodeId node, std::uint32_t incarnation);
  void end_declaration(fabric::NodeId node);
  // Marks the state of dead client workers on this process's nodes as abandoned.
  void abandon(const std::vector<kv::ClientId>& dead);

 private:
  [[nodiscard]] Result<> add_tables(fabric::Fabric& fabric, NodeState& state) const;
  [[nodiscard]] Result<> add_buffers(fabric::Fabric& fabric, NodeState& state) const;
  [[nodiscard]] std::unique_ptr<WorkerState> make_worker(const NodeState& state, std::uint32_t worker) const;
  [[nodiscard]] coro::Task<void> run_alone(fabric::Worker* worker, const bool* done);
  [[nodiscard]] DataTable::Share share_of(std::uint32_t worker, std::uint64_t preloaded) const;

  std::unique_ptr<const Settings> settings_;
  fabric::Fabric* fabric_ = nullptr;
  std::map<fabric::NodeId, NodeState> nodes_;
  mutable std::mutex mutex_;
  // lost nodes with their new incarnations; protected by mutex_
  std::map<fabric::NodeId, std::uint32_t> declared_;
};

}  // namespace loch::nessie
