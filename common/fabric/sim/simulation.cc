// Makes and ends the shared state of a simulation: its nodes, their clocks and cores.
#include "common/fabric/sim/simulation.h"

#include "common/fabric/sim/worker.h"

namespace loch::fabric::sim {
Cluster::Cluster(const SimConfig& sim_config) : config(sim_config), timing(sim_config.hardware) {}
Cluster::~Cluster() = default;

Simulation::Simulation(Cluster& shared, std::uint8_t number)
    : cluster(shared),
      config(shared.config),
      timing(shared.timing),
      part(number),
      divisible(shared.config.threads > 0),
      staging(number),
      nodes(shared.nodes),
      workers(shared.workers),
      hash(number == 0 ? mix64(shared.config.seed) : 0),
      fault_rng(shared.config.seed, "faults") {
  if (config.random_tie_order) queue.randomize_ties(config.seed);
  if (is_divisible()) queue.order_by_sender();
  has_faults = config.faults.any();
}

void make_nodes(Cluster& cluster, const std::vector<std::unique_ptr<Simulation>>& parts) {
  const SimConfig& config = cluster.config;
  const HardwareProfile& hardware = config.hardware;
  Rng clocks(config.seed, "clocks");
  for (std::uint32_t i = 0; i < config.nodes; ++i) {
    auto node = std::make_unique<SimNode>();
    node->id = static_cast<NodeId>(i);
    node->part = static_cast<std::uint8_t>(i % parts.size());
    node->atomic_locks.resize(hardware.nic.atomic_buckets);
    node->atomic_places.resize(hardware.nic.atomic_places);
    if (hardware.nic.transmit_units > 1) node->transmit_units.resize(hardware.nic.transmit_units);
    node->contexts = ContextCache(hardware.nic.queue_pair_entries);
    node->translations = KeyCache(hardware.nic.translation_entries);
    const CrowdedNic& nic = hardware.nic.crowded;
    node->doorbells = config.doorbells == DoorbellSharing::own
                          ? Doorbells::one_for_each_thread()
                          : Doorbells(nic.private_doorbells, nic.shared_doorbells);
    const double skew = 2 * clocks.uniform() - 1, drift = 2 * clocks.uniform() - 1;
    node->skew = static_cast<std::int64_t>(skew * static_cast<double>(config.faults.clock_skew));
    node->drift_ppb = static_cast<std::int64_t>(drift * config.faults.clock_drift_ppm * 1000);
    node->cpu = std::make_unique<NodeCpu>(parts[node->part]->queue, hardware.cpu, hardware.scheduler,
                                          hardware.power, sub_seed(config.seed, "cpu", i));
    cluster.nodes.push_back(std::move(node));
  }
}

std::uint32_t Simulation::make_rkey(const SimNode& node, std::uint32_t region) const {
  return static_cast<std::uint32_t>(
      sub_seed(config.seed, "rkey",
               (std::uint64_t{node.incarnation} << 40) | (std::uint64_t{node.id} << 20) | region));
}

}  // namespace loch::fabric::sim
