// A deployed Nessie: the regions of the local nodes, what their workers keep, and the way to every
// other node's tables.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/kv/protocol.h"
#include "common/kv/word_cache.h"
#include "nessie/data_table.h"
#include "nessie/settings.h"

namespace loch::nessie {

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

// A node's tables as its peers reach them.
struct alignas(64) Peer {
  fabric::RemoteRegion index;
  fabric::RemoteRegion data;
  std::uint32_t epoch = 0;  // of the connection under which the regions were looked up
};

// A DTE that left the index and waits to be marked.
struct Unlinked {
  EntryId id;
  Nanos deadline = 0;  // of the unlinker's node clock
};

struct Counters {
  std::uint64_t conflicts = 0, rollbacks = 0, migrations = 0, migrations_undone = 0, stamps_local = 0,
                stamps_remote = 0, stamps_lost = 0, previous_reads = 0, reconnects = 0, ambiguous_swaps = 0,
                expired_operations = 0, back_pressure = 0, false_filter_hits = 0, reverse_mismatches = 0,
                reserved_slots = 0, watch_timeouts = 0,
                removed_then_aborted = 0;  // H1: an attempt removed a committed entry and then gave up
};

// What one client worker keeps; used by its own thread alone.
struct WorkerState {
  WorkerState(fabric::Region& data, const Settings& settings, const DataTable::Share& share)
      : table(data, settings.entry, settings.format, share, settings.clock_margin,
              settings.rules.honours_expiry) {}
  DataTable table;
  std::vector<Peer> peers;        // by node; each worker's own, renewed after a reconnection
  std::deque<Unlinked> unlinked;  // to be stamped in the background
  Counters counters;
};

// A node of this process.
struct NodeState {
  fabric::NodeId node = 0;
  fabric::Region* index = nullptr;
  fabric::Region* data = nullptr;
  fabric::Region* landing = nullptr;
  fabric::Region* words = nullptr;
  std::unique_ptr<kv::WordCache> cache;  // null: off
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
  [[nodiscard]] std::map<std::string, double> counters() const override;

  [[nodiscard]] const Settings& settings() const { return *settings_; }
  [[nodiscard]] fabric::Fabric& fabric() const { return *fabric_; }
  // A node of this process; aborts for any other.
  [[nodiscard]] NodeState& local(fabric::NodeId node);

 private:
  std::unique_ptr<const Settings> settings_;
  fabric::Fabric* fabric_ = nullptr;
  std::map<fabric::NodeId, NodeState> nodes_;
};

}  // namespace loch::nessie
