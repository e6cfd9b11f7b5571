// Counts work requests and bytes of each operation and node while passing them on.
#include "common/fabric/count/count.h"

#include <array>
#include <atomic>
#include <bit>

#include "common/fabric/decorator.h"

namespace loch::fabric {
namespace {

constexpr std::size_t verbs = 6, transports = 3;

// Computes bytes on the wire without a division, from the cost of a first packet, of each further packet and
// of an immediate. The table is filled by wire.h, so that headers are described in one place.
class WireTable {
 public:
  WireTable(LinkFormat link, std::uint32_t mtu)
      : mtu_(mtu), shift_(static_cast<unsigned>(std::countr_zero(mtu))) {
    LOCH_CHECK(std::has_single_bit(mtu), "an MTU of {} bytes is no power of two", mtu);
    for (std::size_t verb = 0; verb < verbs; ++verb) {
      for (std::size_t transport = 0; transport < transports; ++transport) {
        const auto bytes = [&](std::uint64_t length, bool immediate) {
          return wire_bytes(static_cast<Verb>(verb), static_cast<Transport>(transport), length, mtu, link,
                            immediate);
        };
        Entry& entry = entries_[verb][transport];
        const WireBytes one = bytes(1, false), two = bytes(mtu + 1u, false),
                        three = bytes(2 * mtu + 1u, false);
        const bool is_read = static_cast<Verb>(verb) == Verb::read;
        const std::uint64_t data_request = is_read || is_atomic(static_cast<Verb>(verb)) ? 0 : 1;
        const std::uint64_t data_response = is_read ? 1 : 0;
        entry.request = static_cast<std::uint32_t>(one.request - data_request);
        entry.response = static_cast<std::uint32_t>(one.response - data_response);
        entry.second_request = static_cast<std::uint32_t>(two.request - one.request - data_request * mtu);
        entry.second_response = static_cast<std::uint32_t>(two.response - one.response - data_response * mtu);
        entry.more_request = static_cast<std::uint32_t>(three.request - two.request - data_request * mtu);
        entry.more_response = static_cast<std::uint32_t>(three.response - two.response - data_response * mtu);
        entry.immediate = static_cast<std::uint32_t>(bytes(1, true).request - one.request);
        entry.data_request = data_request;
        entry.data_response = data_response;
      }
    }
  }

  struct Bytes {
    std::uint64_t request, response;
  };
  [[nodiscard]] Bytes of(const WorkRequest& request) const {
    const Entry& entry =
        entries_[static_cast<std::size_t>(request.verb)][static_cast<std::size_t>(request.transport)];
    Bytes bytes{entry.request + request.length * entry.data_request,
                entry.response + request.length * entry.data_response};
    if (request.has_immediate) bytes.request += entry.immediate;
    if (request.length > mtu_) {
      const std::uint64_t more = ((request.length - 1) >> shift_) - 1;  // packets beyond the second
      bytes.request += entry.second_request + more * entry.more_request;
      bytes.response += entry.second_response + more * entry.more_response;
    }
    return bytes;
  }

 private:
  struct Entry {
    std::uint32_t request, response, second_request, second_response, more_request, more_response, immediate;
    // 1 where the payload travels in the request (the response), else 0
    std::uint64_t data_request, data_response;
  };
  std::uint32_t mtu_;
  unsigned shift_;
  std::array<std::array<Entry, transports>, verbs> entries_{};
};

// A counter that one thread writes and others may read.
class Tally {
 public:
  void add(std::uint64_t amount) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  void reset() { base_.store(value_.load(std::memory_order_relaxed), std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t since_reset() const {
    return value_.load(std::memory_order_relaxed) - base_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_ = 0, base_ = 0;
};

class CountingWorker final : public WrappedWorker {
 public:
  // `nodes`: the number of peers for which bytes on the wire are counted; 0: they are not counted.
  CountingWorker(Worker* inner, const WireTable* wire, std::uint32_t nodes)
      : WrappedWorker(inner), wire_(wire), peers_(nodes) {}

  void post(WorkRequest* chain) override {
    for (const WorkRequest* request = chain; request != nullptr; request = request->next) count(*request);
    inner().post(chain);
  }
  void post_detached(const WorkRequest& request) override {
    count(request);
    inner().post_detached(request);
  }
  void attribute(const WorkRequest& arrived) override {
    if (arrived.peer == node() || arrived.stats == nullptr) return;
    const WireTable::Bytes wire = wire_->of(arrived);
    hang(arrived, payload_bytes(arrived.verb, arrived.length), wire);
  }

  struct Peer {
    Tally requested, responded;  // wire bytes by node, of this worker's requests and of their responses
  };
  struct Counts {
    std::array<Tally, verbs> by_verb;
    Tally payload;
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] const Peer& peer(std::size_t node) const { return peers_[node]; }
  void reset() {
    for (Tally& tally : counts_.by_verb) tally.reset();
    counts_.payload.reset();
    for (Peer& peer : peers_) {
      peer.requested.reset();
      peer.responded.reset();
    }
  }

 private:
  void count(const WorkRequest& request) {
    counts_.by_verb[static_cast<std::size_t>(request.verb)].add(1);
    const bool crosses = request.peer != node();
    WireTable::Bytes wire{0, 0};
    std::uint64_t payload = 0;
    if (crosses) {
      wire = wire_->of(request);
      payload = payload_bytes(request.verb, request.length);
      if (request.peer < peers_.size()) {
        peers_[request.peer].requested.add(wire.request);
        peers_[request.peer].responded.add(wire.response);
      }
      counts_.payload.add(payload);
    }
    if (request.stats != nullptr) hang(request, payload, wire);
  }

  static void hang(const WorkRequest& request, std::uint64_t payload, const WireTable::Bytes& wire) {
    OpStats& stats = *request.stats;
    switch (request.verb) {
      case Verb::read:
        ++stats.read;
        break;
      case Verb::write:
        ++stats.write;
        break;
      case Verb::cas:
        ++stats.cas;
        break;
      case Verb::faa:
        ++stats.faa;
        break;
      case Verb::send:
        ++stats.send;
        break;
      case Verb::recv:
        ++stats.recv;
        break;
    }
    stats.payload_bytes += payload;
    stats.wire_bytes += wire.request + wire.response;
  }

  const WireTable* wire_;
  Counts counts_;
  std::vector<Peer> peers_;
};

class CountingFabric final : public WrappedFabric<CountingWorker> {
 public:
  CountingFabric(std::unique_ptr<Fabric> inner, const CountConfig& config)
      : WrappedFabric(std::move(inner)),
        wire_(config.link, config.mtu_bytes != 0 ? config.mtu_bytes : capabilities().mtu_bytes),
        fabric_counts_wire_(config.fabric_counts_wire) {}

  void reset_counters() override {
    inner().reset_counters();
    for (const auto& worker : wrappers()) worker->reset();
  }
  [[nodiscard]] FabricReport report() const override {
    FabricReport report = inner().report();
    report.nodes.resize(nodes());
    bool inner_counts_wire = fabric_counts_wire_;
    for (const NodeReport& node : report.nodes)
      inner_counts_wire |= node.tx_wire_bytes + node.rx_wire_bytes != 0;
    for (const auto& worker : wrappers()) {
      NodeReport& own = report.nodes[worker->node()];
      for (std::size_t verb = 0; verb < verbs; ++verb) {
        if (static_cast<Verb>(verb) == Verb::recv) continue;
        own.counters[std::string("posted.") + names[verb]] +=
            static_cast<double>(worker->counts().by_verb[verb].since_reset());
      }
      own.counters["posted.payload_bytes"] += static_cast<double>(worker->counts().payload.since_reset());
      if (inner_counts_wire) continue;
      for (std::size_t node = 0; node < report.nodes.size(); ++node) {
        const CountingWorker::Peer& peer = worker->peer(node);
        own.tx_wire_bytes += peer.requested.since_reset();
        own.rx_wire_bytes += peer.responded.since_reset();
        report.nodes[node].rx_wire_bytes += peer.requested.since_reset();
        report.nodes[node].tx_wire_bytes += peer.responded.since_reset();
      }
    }
    return report;
  }

 protected:
  [[nodiscard]] std::unique_ptr<CountingWorker> wrap(Worker* worker) override {
    return std::make_unique<CountingWorker>(worker, &wire_, fabric_counts_wire_ ? 0 : nodes());
  }

 private:
  static constexpr std::array<const char*, verbs> names{"read", "write", "cas", "faa", "send", "recv"};
  WireTable wire_;
  bool fabric_counts_wire_;
};

}  // namespace

std::unique_ptr<Fabric> count_requests(std::unique_ptr<Fabric> inner, const CountConfig& config) {
  return std::make_unique<CountingFabric>(std::move(inner), config);
}

}  // namespace loch::fabric
