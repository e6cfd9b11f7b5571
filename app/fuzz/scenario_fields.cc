// Maps a scenario to the fields of a JSON document, with the range of each field.
#include "app/fuzz/scenario_fields.h"
#include "common/kv/conflict_kinds.h"

#include <array>

namespace loch::fuzz {
namespace {

using fabric::sim::ScheduledFault;
using fabric::sim::SimFaults;

constexpr std::int64_t second = 1'000'000'000, most_nodes = 8, most_workers = 16, most_records = 4'096;
constexpr std::size_t most_clients = 4'096, most_operations = 200'000;
constexpr std::array<std::string_view, 9> fault_names = {
    "crash", "pause", "nic_stall", "cut", "kill", "one_way", "lossy", "no_buffers", "clock_step"};
constexpr std::array<std::string_view, op_kinds> operation_names = {"get", "put", "delete",
                                                                    "insert_if_absent"};

template <typename A>
void cluster(A& a, FuzzScenario& s) {
  kv::DeployConfig& d = s.plan.deploy;
  a.whole("nodes", d.nodes, 1, most_nodes);
  a.whole("server_nodes", d.server_nodes, 0, most_nodes);
  a.whole("client_workers", d.client_workers, 1, most_workers);
  a.whole("server_workers", d.server_workers, 0, most_workers);
  a.whole("window", d.window, 1, most_workers);
  a.whole("key_bytes", d.key_size, 1, 1'024);
  a.whole("value_bytes", d.value_size, 1, 65'536);
  a.whole("keys", s.plan.records.preloaded, 1, most_records);
  a.whole("most_keys", s.plan.records.most, 1, most_records);
  a.seed("seed", d.seed);
  if constexpr (A::is_reading) {
    s.sim.nodes = d.nodes;
    d.kept_value_bytes = d.value_size;
    d.keys = d.max_keys = s.plan.records.preloaded;
    d.memory_bytes = fuzz_memory_bytes;
    s.plan.records.key_size = d.key_size;
    s.plan.records.value_size = d.value_size;
  }
}

template <typename A>
void script(A& a, workloads::Script& all) {
  a.list("clients", all, most_clients, [](A& one, workloads::ScriptedClient& client) {
    one.whole("node", client.node, 0, most_nodes - 1);
    one.whole("worker", client.worker, 0, most_workers - 1);
    one.whole("slot", client.slot, 0, most_workers - 1);
    one.whole("life", client.incarnation, 0, 16);
    one.list("operations", client.operations, most_operations, [](A& inner, workloads::ScriptedOperation& o) {
      inner.choice("op", o.kind, operation_names);
      inner.whole("record", o.record, 0, most_records - 1);
      inner.whole("at_ns", o.at, 0, 60 * second);
    });
  });
}

template <typename A>
void load(A& a, workloads::LoadConfig& l) {
  a.object("mix", [&](A& mix) {
    mix.real("get", l.mix.get, 0, 1);
    mix.real("put", l.mix.put, 0, 1);
    mix.real("delete", l.mix.remove, 0, 1);
    mix.real("insert", l.mix.insert, 0, 1);
    mix.later_real("insert_if_absent", l.mix.insert_if_absent, 0, 1);
  });
  a.whole("operations", l.operations, 0, most_operations);
  a.whole("duration_ns", l.duration, 0, second);
  a.whole("think_ns", l.think, 0, second);
  a.whole("read_only", l.read_only, 0, most_records);
  a.whole("readers", l.readers, 0, most_workers);
  a.flag("may_be_full", l.may_be_full);
  a.flag("final_sweep", l.final_sweep);
  a.whole("sweep_patience_ns", l.sweep_patience, 0, 60 * second);
  a.optional("swept", l.swept, [](A& one, std::vector<std::uint64_t>& records) {
    one.numbers("records", records, most_records, most_records - 1);
  });
  a.seed("seed", l.seed);
  a.later_optional("backoff", l.conflicts, [](A& one, kv::ConflictConfig& c) {
    one.choice("kind", c.kind, kv::conflict_kinds);
    one.whole("start_ns", c.start, 1, second);
    one.whole("epoch_ns", c.epoch, 1'000, second);
  });
  a.optional("script", l.script, [](A& one, workloads::Script& all) { script(one, all); });
}

template <typename A>
void weakness(A& a, SimFaults& f) {
  a.real("torn_read", f.torn_read, 0, 1);
  a.real("torn_write", f.torn_write, 0, 1);
  a.real("torn_landing", f.torn_landing, 0, 1);
  a.whole("torn_span_ns", f.torn_span, 0, second);
  a.whole("torn_chunks", f.torn_chunks, 2, 8);
  a.flag("split_atomics", f.split_atomics);
  a.whole("split_span_ns", f.split_span, 0, second);
  a.real("late_write", f.late_write, 0, 1);
  a.whole("late_write_span_ns", f.late_write_span, 0, second);
  a.real("overtaking_write", f.overtaking_write, 0, 1);
  a.whole("overtaking_span_ns", f.overtaking_span, 0, second);
  a.real("uc_loss", f.uc_loss, 0, 1);
  a.real("ud_loss", f.ud_loss, 0, 1);
  a.real("ud_reorder", f.ud_reorder, 0, 1);
  a.whole("ud_reorder_span_ns", f.ud_reorder_span, 0, second);
  a.real("rc_loss", f.rc_loss, 0, 1);
  a.real("rnr", f.rnr, 0, 1);
  a.whole("clock_skew_ns", f.clock_skew, 0, second);
  a.real("clock_drift_ppm", f.clock_drift_ppm, 0, 1e5);
  a.whole("jitter_ns", f.jitter, 0, second);
  a.real("laggards", f.stragglers, 0, 1);
  a.whole("lag_ns", f.lag, 0, second);
  a.whole("first_laggard", f.first_straggler, 0, most_workers);
  a.real("slow_dma", f.slow_dma, 0, 1);
  a.whole("slow_dma_span_ns", f.slow_dma_span, 0, second);
  a.real("interrupted", f.interrupted, 0, 1);
  a.whole("interrupted_span_ns", f.interrupted_span, 0, second);
  a.real("pause_rate", f.pause_rate, 0, 1e6);
  a.real("nic_stall_rate", f.nic_stall_rate, 0, 1e6);
  a.real("cut_rate", f.cut_rate, 0, 1e6);
  a.whole("outage_span_ns", f.outage_span, 0, second);
  a.whole("heal_at_ns", f.heal_at, 0, 60 * second);
}

// A failure of the schedule, with the time until its repair.
struct Failure {
  ScheduledFault fault;
  Nanos repair_after = 0;
};

template <typename A>
void failures(A& a, FuzzScenario& s) {
  a.optional("retries", s.failures.retries, [](A& one, FuzzRetries& r) {
    one.whole("timeout_ns", r.timeout, 1'000, second);
    one.whole("count", r.count, 0, 7);
    one.whole("rnr_timer_ns", r.rnr_timer, 1'000, second);
    one.whole("rnr_count", r.rnr_count, 0, 7);
  });
  a.object("keeper", [&](A& one) {
    one.whole("node", s.failures.keeper.node, 0, most_nodes - 1);
    one.whole("worker", s.failures.keeper.worker, 0, most_workers - 1);
  });
  std::vector<Failure> all;
  for (std::size_t i = 0; i < s.sim.faults.schedule.size(); ++i)
    all.push_back({s.sim.faults.schedule[i], s.failures.repair_after.at(i)});
  a.list("schedule", all, 64, [](A& one, Failure& f) {
    one.choice("kind", f.fault.kind, fault_names);
    one.whole("node", f.fault.node, 0, most_nodes - 1);
    one.whole("at_ns", f.fault.at, 0, 60 * second);
    one.whole("span_ns", f.fault.span, 0, second);
    one.whole("worker", f.fault.worker, 0, 2 * most_workers);
    one.whole("peer", f.fault.peer, 0, most_nodes - 1);
    one.real("chance", f.fault.chance, 0, 1);
    one.whole("step_ns", f.fault.step, -second, second);
    one.whole("repair_after_ns", f.repair_after, 0, second);
  });
  if constexpr (A::is_reading) {
    s.sim.faults.schedule.clear();
    s.failures.repair_after.clear();
    for (const Failure& f : all) {
      s.sim.faults.schedule.push_back(f.fault);
      s.failures.repair_after.push_back(f.repair_after);
    }
    s.failures.has_schedule = !all.empty();
  }
}

template <typename A>
void all_fields(A& a, FuzzScenario& s) {
  a.text("profile", s.profile);
  a.object("cluster", [&](A& one) { cluster(one, s); });
  a.dictionary("knobs", s.knobs);
  a.object("load", [&](A& one) { load(one, s.plan.load); });
  a.object("simulator", [&](A& one) {
    one.seed("seed", s.sim.seed);
    one.flag("random_tie_order", s.sim.random_tie_order);
    one.flag("keeps_memory_in_order", s.keeps_memory_in_order);
    one.whole("deadline_ns", s.sim.deadline, 1, 60 * second);
    one.object("faults", [&](A& inner) { weakness(inner, s.sim.faults); });
  });
  a.object("failures", [&](A& one) { failures(one, s); });
  if constexpr (A::is_reading) s.plan.waives_order = true;
}

}  // namespace

void fields(FieldWriter& to, FuzzScenario& scenario) { all_fields(to, scenario); }
void fields(FieldReader& from, FuzzScenario& scenario) { all_fields(from, scenario); }

}  // namespace loch::fuzz
