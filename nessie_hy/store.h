#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/coupled/table_client.h"
#include "common/coupled/tables.h"
#include "common/kv/further_loads.h"
#include "common/kv/protocol.h"
#include "common/kv/word_cache.h"
#include "nessie_hy/settings.h"

namespace loch::nessie_hy {

// buffers for READs of data table entries: one entry for each lane (place for one outstanding operation)
constexpr std::string_view landing_region = "nessie-hy.landing";
// buffers for READs of words: lane_words words of 8 bytes for each lane (place for one outstanding operation)
constexpr std::string_view words_region = "nessie-hy.words";

// Number of 8-byte words that each lane (place for one outstanding operation) has as buffers for READs: a
// whole cache line, so that no two lanes share one.
constexpr std::uint32_t lane_words = 8;
enum LaneWord : std::uint32_t { lane_index = 0, lane_flush = 1 };

struct GetCounts {
  std::uint64_t conflicts = 0, mismatches = 0, other_keys = 0, expired = 0, watch_timeouts = 0,
                reconnects = 0;
};

// Buffers, cache and counters for the GETs of one node's clients.
struct NodeReading {
  fabric::Region* landing = nullptr;
  fabric::Region* words = nullptr;
  std::unique_ptr<kv::WordCache> cache;  // cache of entries by index word; null: no cache
  // Caches of the node's former incarnations: operations of clients that died may still point into them.
  std::vector<std::unique_ptr<kv::WordCache>> old_caches;
  // counters of GETs, indexed by outstanding operation (lane)
  std::vector<std::unique_ptr<GetCounts>> counts;
};

// How a worker reaches the regions of another node's tables.
struct Peer {
  fabric::RemoteRegion index, data;
  std::uint32_t epoch = 0;  // identifies the connection over which the regions were looked up
};

class HyStore final : public kv::Store, public kv::FurtherLoads {
 public:
  explicit HyStore(Settings settings) : settings_(std::move(settings)), tables_(settings_.table) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] std::map<std::string, double> counters() const override;
  [[nodiscard]] std::vector<std::string_view> levels() const override { return {"cache_entries"}; }

  [[nodiscard]] Result<> restart_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] coro::Task<kv::Repair> declare_lost(fabric::Worker& worker,
                                                    std::vector<fabric::NodeId> lost) override {
    return tables_.declare_lost(&worker, std::move(lost));
  }
  [[nodiscard]] bool needs(kv::Key key, fabric::NodeId node,
                           std::optional<std::uint32_t> server) const override {
    return tables_.needs(key, node, server);
  }
  [[nodiscard]] std::vector<std::string> audit(const std::vector<fabric::NodeId>& lost) const override {
    return tables_.audit(lost);
  }

  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] coupled::Tables& tables() { return tables_; }
  [[nodiscard]] NodeReading& reading(fabric::NodeId node);
  [[nodiscard]] const std::vector<Peer>& peers() const { return peers_; }
  // Makes an empty cache for a node of this process, if caches are on. None of the node's clients may be
  // running.
  void make_cache(fabric::NodeId node);
  [[nodiscard]] Result<Peer> look_up(fabric::NodeId node) const;

 private:
  Settings settings_;
  coupled::Tables tables_;
  fabric::Fabric* fabric_ = nullptr;
  std::map<fabric::NodeId, NodeReading> nodes_;
  std::vector<Peer> peers_;
};

}  // namespace loch::nessie_hy
