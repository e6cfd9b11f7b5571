// A deployed Nessie: the regions of the local nodes, what their workers keep, and the way to every
// other node's tables.
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

#include "common/kv/protocol.h"
#include "common/kv/word_cache.h"
#include "nessie/data_table.h"
#include "nessie/settings.h"

namespace loch::nessie {

struct InHand;

constexpr std::string_view index_region = "nessie.index";      // ITEs; touched by the NIC alone
constexpr std::string_view data_region = "nessie.data";        // DTEs
constexpr std::string_view landing_region = "nessie.landing";  // one DTE a lane
constexpr std::string_view words_region = "nessie.words";      // lane_words a lane

// 8-byte words of a lane: landing places of single words, and a stretch for scans.
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

// A node as its peers reach it: its data table, and which incarnation of its memory that is.
struct Peer {
  fabric::RemoteRegion data;
  std::uint32_t epoch = 0;  // of the connection under which the region was looked up
  std::uint32_t incarnation = 0;
  Nanos not_before = 0;  // now(): when the background tries to reach it again
  bool is_gone = false;  // declared lost, and not known to be back
};

// The share of the index that a node brought into the table, wherever it lies by now (members.h).
struct IndexShare {
  fabric::RemoteRegion index;  // of the node that hosts it
  std::uint64_t base = 0;      // offset of its first slot in there
  bool is_void = false;        // the share of the index is on no node for now
};

// A DTE that left the index, or is suspected to have, and waits to be marked.
struct Unlinked {
  EntryId id;
  Nanos deadline = 0;  // of the unlinker's node clock
  bool is_suspicion = false;
};

// What an operation had to leave behind because a CAS ended in an error and its node could not be asked:
// a word of its own in the index, or perhaps in it (A3). The worker's background goes on with it until the
// node is back.
struct Unfinished {
  enum class Step : std::uint8_t {
    take_back,    // CAS own -> back. Gone already: what the operation did last had taken place
    decide_move,  // the copy is in, and whether the source was emptied is not known
    finish_move,  // the source is empty; the copy is to be committed
  };
  Step step = Step::take_back;
  cuckoo::Place place;
  Word own = 0, back = 0;
  EntryId entry;           // the entry that the word `own` names
  bool is_commit = false;  // take_back: what may have taken place is the commit
  std::array<EntryId, cuckoo::max_functions + 1> staged{};  // entries to be stamped if the CAS took place
  std::uint32_t staged_count = 0;
  cuckoo::Place source;  // of a move
  Word source_word = 0, tag = 0;
  std::uint8_t source_rank = 0;
  Nanos not_before = 0;  // now(): when to try again
  Nanos pause = 0;       // between two tries, doubling
};

struct Counters {
  std::uint64_t conflicts = 0, rollbacks = 0, migrations = 0, migrations_undone = 0, stamps_local = 0,
                stamps_remote = 0, stamps_put_off = 0, previous_reads = 0, reconnects = 0,
                ambiguous_swaps = 0, expired_operations = 0, back_pressure = 0, false_filter_hits = 0,
                reverse_mismatches = 0, reserved_slots = 0, watch_timeouts = 0, left_unfinished = 0,
                settled = 0, suspicions = 0, doubts_cleared = 0, leaks_found = 0, lost_words_buried = 0,
                lost_values_met = 0, members_told = 0,
                removed_then_aborted = 0;  // H1: an attempt removed a committed entry and then gave up
};

// The state of one client worker; used by its own thread only.
struct WorkerState {
  // Resets the node's state after a restart with fresh memory.
  void restart(fabric::Region& data, const Settings& settings, const DataTable::Share& share);
  WorkerState(fabric::Region& data, const Settings& settings, const DataTable::Share& share)
      : table(data, settings.entry, settings.format, share, settings.clock_margin, settings.rules, 0) {}
  DataTable table;
  std::vector<Peer> peers;             // by node; each worker's own, renewed after a reconnection
  std::vector<IndexShare> shares;      // by the node that brought it into the table
  Word members_seen = 0;               // version of the members that peers and shares are of
  bool has_losses = false;             // some node was declared lost once
  std::deque<Unlinked> unlinked;       // to be stamped in the background
  std::deque<Unfinished> unfinished;   // to be settled in the background
  std::vector<const InHand*> in_hand;  // one of each live lane of the worker (lane.h)
  bool is_abandoned = false;  // the worker died: its volatile state is gone, its entries stay as they are
  Counters counters;
};

// A node of this process.
struct NodeState {
  fabric::NodeId node = 0;
  fabric::Region* index = nullptr;
  fabric::Region* data = nullptr;
  fabric::Region* landing = nullptr;
  fabric::Region* words = nullptr;
  fabric::Region* members = nullptr;
  std::unique_ptr<kv::WordCache> cache;  // null: off
  // Of the node's former incarnations: clients that died with one may still hold a value of it.
  std::vector<std::unique_ptr<kv::WordCache>> former_caches;
  std::vector<std::unique_ptr<WorkerState>> workers;
};

class NessieStore final : public kv::Store {
 public:
  explicit NessieStore(std::unique_ptr<const Settings> settings) : settings_(std::move(settings)) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] bool has_background() const override { return true; }
  [[nodiscard]] coro::Task<void> background(fabric::Worker& worker, const bool* done) override;
  [[nodiscard]] coro::Task<kv::Repair> scrub(fabric::Worker& worker, std::vector<kv::ClientId> dead) override;
  [[nodiscard]] coro::Task<kv::Repair> declare_lost(fabric::Worker& worker,
                                                    std::vector<fabric::NodeId> lost) override;
  // What this process kept of the node's workers is void with its memory. Its clients end in errors until the
  // node has been declared lost: the members that it is told then say which incarnation it is.
  [[nodiscard]] Result<> restart_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] std::vector<std::string> audit(const std::vector<fabric::NodeId>& lost) const override;
  [[nodiscard]] std::map<std::string, double> counters() const override;

  [[nodiscard]] const Settings& settings() const { return *settings_; }
  [[nodiscard]] fabric::Fabric& fabric() const { return *fabric_; }
  // A node of this process; aborts for any other.
  [[nodiscard]] NodeState& local(fabric::NodeId node);
  // The incarnation that a declaration which is not complete yet gives the node; none where none is under way
  // (declare.cc).
  [[nodiscard]] std::optional<std::uint32_t> declared_as(fabric::NodeId node) const;
  void begin_declaration(fabric::NodeId node, std::uint32_t incarnation);
  void end_declaration(fabric::NodeId node);
  // Drops the state of dead client workers of this process's nodes.
  void abandon(const std::vector<kv::ClientId>& dead);

 private:
  [[nodiscard]] DataTable::Share share_of(std::uint32_t worker, std::uint64_t preloaded) const;

  std::unique_ptr<const Settings> settings_;
  fabric::Fabric* fabric_ = nullptr;
  std::map<fabric::NodeId, NodeState> nodes_;
  mutable std::mutex mutex_;
  std::map<fabric::NodeId, std::uint32_t> declared_;  // with their new incarnations; under mutex_
};

}  // namespace loch::nessie
