// Gives each worker a counter of its work requests, and reports what the counters hold.
#include "common/fabric/count/count.h"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/decorator.h"
#include "common/fabric/request_counter.h"

namespace loch::fabric {
namespace {

// A fabric decorator that forwards all calls. Workers are those of the inner fabric, each with a
// RequestCounter.
class CountingFabric final : public ForwardingFabric<> {
 public:
  CountingFabric(std::unique_ptr<Fabric> inner, const CountConfig& config)
      : ForwardingFabric(std::move(inner)),
        wire_(config.link.value_or(capabilities().link),
              config.mtu_bytes != 0 ? config.mtu_bytes : capabilities().mtu_bytes),
        fabric_counts_wire_(config.fabric_counts_wire) {}

  [[nodiscard]] Result<Worker*> add_worker(const WorkerSpec& spec) override {
    LOCH_ASSIGN(Worker * worker, inner().add_worker(spec));
    counted_.push_back(
        {spec.node, std::make_unique<RequestCounter>(spec.node, &wire_, fabric_counts_wire_ ? 0 : nodes())});
    worker->count_into(counted_.back().counter.get());
    return worker;
  }
  void reset_counters() override {
    inner().reset_counters();
    for (const Counted& each : counted_) each.counter->reset();
  }
  [[nodiscard]] FabricReport report() const override {
    FabricReport report = inner().report();
    report.nodes.resize(nodes());
    bool inner_counts_wire = fabric_counts_wire_;
    for (const NodeReport& node : report.nodes)
      inner_counts_wire |= node.tx_wire_bytes + node.rx_wire_bytes != 0;
    for (const Counted& each : counted_) {
      const RequestCounter& counter = *each.counter;
      NodeReport& own = report.nodes[each.node];
      for (std::size_t verb = 0; verb < RequestCounter::verbs; ++verb) {
        if (static_cast<Verb>(verb) == Verb::recv) continue;
        own.counters[std::string("posted.") + names[verb]] +=
            static_cast<double>(counter.by_verb()[verb].since_reset());
      }
      own.counters["posted.payload_bytes"] += static_cast<double>(counter.payload().since_reset());
      if (inner_counts_wire) continue;
      for (std::size_t node = 0; node < report.nodes.size(); ++node) {
        const RequestCounter::Peer& peer = counter.peers()[node];
        own.tx_wire_bytes += peer.requested.since_reset();
        own.rx_wire_bytes += peer.responded.since_reset();
        report.nodes[node].rx_wire_bytes += peer.requested.since_reset();
        report.nodes[node].tx_wire_bytes += peer.responded.since_reset();
      }
    }
    return report;
  }

 private:
  struct Counted {
    NodeId node = 0;
    std::unique_ptr<RequestCounter> counter;
  };
  static constexpr std::array<const char*, RequestCounter::verbs> names{"read", "write", "cas",
                                                                        "faa",  "send",  "recv"};
  WireTable wire_;
  bool fabric_counts_wire_;
  std::vector<Counted> counted_;
};

}  // namespace

std::unique_ptr<Fabric> count_requests(std::unique_ptr<Fabric> inner, const CountConfig& config) {
  return std::make_unique<CountingFabric>(std::move(inner), config);
}

}  // namespace loch::fabric
