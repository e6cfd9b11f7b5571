// Tests that the result document has every key, that its figures add up, and that it is written whole.
#include "common/measure/result.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/file.h"
#include "common/base/output_place.h"
#include "common/base/process_memory.h"
#include "common/base/rng.h"

namespace loch::measure {
namespace {

Tally sample(std::uint64_t seed) {
  Rng rng(seed);
  Tally t;
  for (int i = 0; i < 500; ++i) {
    KindTally& kind = t.of(i % 3 == 0 ? OpKind::put : OpKind::get);
    kind.latency_ns.record(static_cast<std::int64_t>(rng.below(90'000)));
    ++kind.by_status[i % 50 == 0 ? 2 : 0];
    fabric::OpStats stats;
    stats.read = i % 3 == 0 ? 5 : 2;
    stats.cas = i % 3 == 0 ? 1 : 0;
    stats.index_read = i % 3 == 0 ? 5 : 1;
    stats.payload_bytes = i % 3 == 0 ? 48 : 1000;
    kind.requests.record(stats);
  }
  t.retries = 7;
  t.first_ns = 10;
  t.first_half = 3;
  t.last_ns = 99;
  return t;
}

PointResult point() {
  PointResult p;
  p.protocol = "nessie";
  p.fabric = "sim";
  p.duration_s = 0.5;
  p.value_size = 1024;
  for (std::uint32_t n = 0; n < 2; ++n) {
    NodePart part;
    part.node = n;
    part.tally = sample(n + 1);
    part.report.tx_wire_bytes = 1000 + n;
    part.report.power_w = 100 + n;
    p.nodes.push_back(std::move(part));
  }
  p.sim = fabric::SimReport{
      .events = 10, .virtual_s = 0.5, .wall_s = 2, .trace_hash = 0xABC, .request_allocations = 0};
  return p;
}

TEST(Result, NamesWhatTheRequestsTravelledOver) {
  PointResult p = point();
  EXPECT_EQ(to_json(p)["transport"], "verbs");
  p.transport = "unix socket";
  EXPECT_EQ(to_json(p)["transport"], "unix socket");
  EXPECT_NE(summary(to_json(p)).find("(unix socket)"), std::string::npos);
}

// The verdict on the network comes from the device counters in the nodes' reports. Of a node that reports no
// counters, it says "not seen".
TEST(Result, SaysWhatTheNetworkDid) {
  PointResult p = point();
  EXPECT_TRUE(to_json(p)["network"].is_null());
  EXPECT_EQ(summary(to_json(p)).find("network"), std::string::npos);
  EXPECT_FALSE(judge_network({}, p.nodes));
  for (fabric::NodeId node = 0; node < 2; ++node) {
    fabric::NodeDevice device;
    device.node = node;
    device.host = "n" + std::to_string(node);
    device.firmware = "20.31.1014";
    device.numa_node = node == 0 ? 1 : -1;
    p.devices.push_back(std::move(device));
  }
  const fabric::CounterValues before = {{"packet_seq_err", 5}}, after = {{"packet_seq_err", 317}};
  p.nodes[1].report.counters = to_counters(fabric::compare(before, after));
  p.network = judge_network(p.devices, p.nodes);
  const auto json = to_json(p);
  EXPECT_EQ(json["network"]["verdict"], "312 retransmissions on n1; not seen on n0: no counters");
  EXPECT_EQ(json["network"]["is_sick"], true);
  ASSERT_EQ(json["network"]["symptoms"].size(), 1);
  EXPECT_EQ(json["network"]["symptoms"][0]["counter"], "packet_seq_err");
  EXPECT_EQ(json["network"]["symptoms"][0]["count"], 312);
  EXPECT_EQ(json["network"]["symptoms"][0]["kind"], "fault");
  EXPECT_EQ(json["devices"][0]["firmware"], "20.31.1014");
  EXPECT_EQ(json["devices"][0]["numa_node"], 1);
  EXPECT_TRUE(json["devices"][1]["numa_node"].is_null());
  EXPECT_NE(summary(json).find("  network: 312 retransmissions on n1"), std::string::npos);
  p.nodes[0].report.is_lost = true;
  EXPECT_EQ(judge_network(p.devices, p.nodes)->verdict, "312 retransmissions on n1; not seen on n0: lost");
}

TEST(Result, HasEveryKeyOfSchemaOne) {
  const auto json = to_json(point());
  for (const char* key : {"schema",          "loch",
                          "protocol",        "fabric",
                          "hardware",        "seed",
                          "config",          "capabilities",
                          "duration_s",      "throughput_ops_s",
                          "goodput_bytes_s", "operations",
                          "latency_us",      "verbs",
                          "wire_bytes",      "cpu",
                          "power_w",         "nodes",
                          "provenance",      "sim",
                          "transport",       "hogs",
                          "window",          "network"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  for (const char* key : {"total", "get", "put", "delete", "ok", "not_found", "conflict", "timeout", "error",
                          "retries", "verified", "corrupt"}) {
    EXPECT_TRUE(json["operations"].contains(key)) << key;
  }
  for (const char* kind : {"all", "get", "put", "delete"}) {
    for (const char* key : {"mean", "min", "p50", "p90", "p95", "p99", "p99_9", "max", "count"}) {
      EXPECT_TRUE(json["latency_us"][kind].contains(key)) << kind << "." << key;
    }
  }
  for (const char* key : {"read", "write", "cas", "faa", "send", "recv", "per_get", "per_put"}) {
    EXPECT_TRUE(json["verbs"].contains(key)) << key;
  }
  for (const char* key : {"total", "per_get", "per_put", "per_node_tx", "per_node_rx"}) {
    EXPECT_TRUE(json["wire_bytes"].contains(key)) << key;
  }
  for (const char* key : {"busy_fraction", "client_busy", "server_busy"})
    EXPECT_TRUE(json["cpu"].contains(key)) << key;
  for (const char* key : {"mean", "per_node"}) EXPECT_TRUE(json["power_w"].contains(key)) << key;
  for (const char* key :
       {"events", "virtual_s", "wall_s", "events_per_s", "trace_hash", "peak_memory_bytes"}) {
    EXPECT_TRUE(json["sim"].contains(key)) << key;
  }
}

TEST(Result, FiguresAddUp) {
  const auto json = to_json(point());
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["operations"]["total"], 1000);
  EXPECT_EQ(json["operations"]["ok"].get<int>() + json["operations"]["conflict"].get<int>(), 1000);
  EXPECT_DOUBLE_EQ(json["throughput_ops_s"], json["operations"]["ok"].get<double>() / 0.5);
  EXPECT_DOUBLE_EQ(json["verbs"]["per_put"]["read"], 5);
  EXPECT_DOUBLE_EQ(json["verbs"]["per_put"]["cas"], 1);
  EXPECT_EQ(json["verbs"]["per_get"]["cdf"]["total"], nlohmann::ordered_json::parse("[[2,1.0]]"));
  EXPECT_DOUBLE_EQ(json["wire_bytes"]["payload_per_put"], 48);
  EXPECT_EQ(json["wire_bytes"]["total"], 2001);
  EXPECT_DOUBLE_EQ(json["power_w"]["mean"], 100.5);
  EXPECT_DOUBLE_EQ(json["sim"]["events_per_s"], 5);
  EXPECT_EQ(json["sim"]["trace_hash"], "0000000000000abc");
  EXPECT_NE(summary(json).find("nessie on sim"), std::string::npos);
}

TEST(Result, PartsSurviveTheTripBetweenProcesses) {
  const PointResult p = point();
  for (const NodePart& part : p.nodes) {
    const auto text = to_json(part).dump();
    const auto back = node_part_from_json(nlohmann::json::parse(text));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(to_json(*back).dump(), text);
  }
  EXPECT_FALSE(node_part_from_json(nlohmann::json::parse(R"({"node":1})")));
}

TEST(File, WholeOrAbsent) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("loch_measure_test_{}", ::getpid());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string path = folder / "a.json";
  ASSERT_TRUE(write_output(path, "one"));
  ASSERT_TRUE(write_output(path, "two"));
  EXPECT_EQ(read_whole(path).value(), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  const auto missing = write_output(folder / "none" / "b.json", "x");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("none/b.json"), std::string::npos);
  const auto unreadable = read_whole(folder / "absent");
  ASSERT_FALSE(unreadable);
  EXPECT_NE(unreadable.error().message.find("absent"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace loch::measure
