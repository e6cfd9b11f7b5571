// nessie_fix_costs [hardware] [value bytes]: prints the cost of each fix of the published protocol on the
// simulator: READs and CASes of index words, READs of entries, and microseconds, per operation of one
// client in an otherwise idle cluster. In each row one fix is switched off or one option on.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "common/fabric/count/count.h"
#include "common/fabric/sim/sim.h"
#include "nessie/test_run.h"

namespace loch::nessie::testing {
namespace {

constexpr std::uint32_t nodes = 15;
constexpr std::uint64_t keys = 15'000;
constexpr std::uint32_t samples = 300;
constexpr std::uint32_t key_size = 128;

struct Cost {
  double index_reads = 0, entry_reads = 0, swaps = 0, us = 0;
  std::uint32_t count = 0;
  void add(const fabric::OpStats& stats, Nanos span) {
    index_reads += stats.index_read;
    entry_reads += stats.read - stats.index_read;
    swaps += stats.index_cas;
    us += static_cast<double>(span) / 1e3;
    ++count;
  }
};
enum Kind : std::uint32_t { hit, miss, update, insert, erase, erase_absent, move, kinds };
constexpr const char* kind_names[kinds] = {"GET hit", "GET miss",      "PUT update", "PUT insert",
                                           "DELETE",  "DELETE absent", "MIGRATE"};
struct Measured {
  Cost cost[kinds];
  std::uint32_t wrong = 0;  // operations with an unexpected result
};

struct Row {
  const char* what;
  std::map<std::string, std::string> options;
  const char* mutant = "";
};

coro::Task<void> one_operation(TestRun* run, Kind kind, std::uint64_t key, Measured* out) {
  NessieClient& client = run->client(0);
  fabric::Worker& worker = run->worker(0);
  std::vector<std::byte> bytes(key_size);
  PatternData::write_key(key, bytes.data(), key_size);
  const kv::Key wanted{bytes.data(), key_size};
  std::vector<std::byte> value(run->config().kept_value_bytes);
  PatternData::write_value(key, value.data(), static_cast<std::uint32_t>(value.size()));
  const kv::ValueView view{value.data(), run->config().value_size, run->config().kept_value_bytes};
  fabric::OpStats stats;
  const Nanos begin = worker.now();
  bool is_right = true;
  if (kind == hit || kind == miss) {
    const kv::OpResult result = co_await client.get(wanted, &stats);
    is_right = result.status == (kind == hit ? kv::OpStatus::ok : kv::OpStatus::not_found);
  } else if (kind == update || kind == insert) {
    const kv::OpResult result = co_await client.put(wanted, view, &stats);
    is_right = result.status == kv::OpStatus::ok;
  } else if (kind == erase || kind == erase_absent) {
    const kv::OpResult result = co_await client.remove(wanted, &stats);
    is_right = result.status == (kind == erase ? kv::OpStatus::ok : kv::OpStatus::not_found);
  } else {
    cuckoo::KeyHash hash = run->store().settings().family.hash(bytes);
    const cuckoo::Place place = hash.candidate(0);
    const Attempt moved = co_await client.migrate_from(place, &stats);
    if (moved != Attempt::ok) co_return;  // not counted: the slot is EMPTY, or the key's other slots are full
  }
  if (!is_right) ++out->wrong;
  out->cost[kind].add(stats, worker.now() - begin);
}

coro::Task<void> measure(TestRun* run, Measured* out) {
  for (std::uint64_t i = 0; i < samples; ++i) {
    const std::uint64_t present = i * 37 % keys;
    const std::uint64_t absent = keys + i;
    co_await one_operation(run, hit, present, out);
    co_await one_operation(run, miss, absent, out);
    co_await one_operation(run, update, present, out);
    co_await one_operation(run, erase_absent, absent, out);
    co_await one_operation(run, insert, absent, out);
    co_await one_operation(run, move, absent, out);
    co_await one_operation(run, erase, present, out);
  }
}

Measured measure_row(const Row& row, const fabric::sim::HardwareProfile& hardware, std::uint32_t value_size) {
  fabric::sim::SimConfig sim;
  sim.nodes = nodes;
  sim.hardware = hardware;
  auto fabric = fabric::sim::make_sim(sim);
  LOCH_CHECK(fabric.has_value(), "{}", fabric.error().message);
  kv::DeployConfig config;
  config.nodes = nodes;
  config.key_size = key_size;
  config.value_size = value_size;
  config.kept_value_bytes = std::min<std::uint32_t>(value_size, 32);
  config.keys = keys;
  config.max_keys = keys + samples;
  std::map<std::string, std::string> options = row.options;
  options.try_emplace("nessie.cache", "off");
  // so many spare entries that no PUT has to wait until one expires during the measurement
  options.try_emplace("nessie.min-spare", "4096");
  TestRun run(fabric::count_requests(std::move(*fabric), {}), config, options, row.mutant);
  Measured measured;
  run.start(0, [&] { return measure(&run, &measured); });
  LOCH_CHECK(run.run() == fabric::RunEnd::finished, "the simulation did not finish");
  return measured;
}

int print(const std::string& hardware_name, std::uint32_t value_size) {
  const auto hardware = fabric::sim::load_hardware(hardware_name);
  if (!hardware.has_value()) {
    fmt::print(stderr, "{}\n", hardware.error().message);
    return 2;
  }
  const std::vector<Row> rows = {
      {"hardened (every fix, the default)", {}},
      {"- full scan first (H1)", {}, "destructive-put"},
      {"- unique EMPTY words, tags (H2)", {}, "empty-not-unique"},
      {"- tagged MIGRATE (H12)", {{"nessie.tagged-migrate", "off"}}},
      {"- exact restore on rollback (H3)", {}, "rollback-to-empty"},
      {"+ commit by CAS (H9)", {{"nessie.commit", "cas"}}},
      {"+ fast update", {{"nessie.fast-update", "on"}}},
      {"+ single-CAS delete", {{"nessie.single-cas-delete", "on"}}},
      {"+ all three",
       {{"nessie.commit", "cas"}, {"nessie.fast-update", "on"}, {"nessie.single-cas-delete", "on"}}},
      {"published 2017 (no fix)", {{"nessie.variant", "published"}}},
      {"published 2015 (versions)", {{"nessie.variant", "published"}, {"nessie.layout", "2015"}}},
      {"completions by CQE", {{"nessie.completion", "cqe"}}},
      {"eager stamping", {{"nessie.stamping", "eager"}}},
      {"no filter bits", {{"nessie.filter-bits", "0"}}},
  };
  fmt::print(
      "{} on {} nodes, {}-byte values, one client, load 0.4; cells: index READs + entry READs / CASes / "
      "us\n\n",
      hardware_name, nodes, value_size);
  fmt::print("{:<38}", "");
  for (const char* name : kind_names) fmt::print(" {:>22}", name);
  fmt::print("\n");
  for (const Row& row : rows) {
    const Measured measured = measure_row(row, *hardware, value_size);
    fmt::print("{:<38}", row.what);
    for (const Cost& cost : measured.cost) {
      const double n = std::max<std::uint32_t>(cost.count, 1);
      fmt::print(" {:>22}", fmt::format("{:.2f}+{:.2f} /{:.2f} /{:.1f}", cost.index_reads / n,
                                        cost.entry_reads / n, cost.swaps / n, cost.us / n));
    }
    fmt::print("{}\n",
               measured.wrong == 0 ? "" : fmt::format("  {} operations ended wrongly", measured.wrong));
  }
  return 0;
}

}  // namespace
}  // namespace loch::nessie::testing

int main(int argc, char** argv) {
  const std::string hardware = argc > 1 ? argv[1] : "connectx3-10gbe";
  const long value_size = argc > 2 ? std::strtol(argv[2], nullptr, 10) : 1024;
  if (value_size < 8 || value_size > (1 << 26)) {
    fmt::print(stderr, "value bytes: {}; expected 8 to 67108864\n", argc > 2 ? argv[2] : "");
    return 2;
  }
  return loch::nessie::testing::print(hardware, static_cast<std::uint32_t>(value_size));
}
