// Tests that the decorator of fabrics that writes traces writes one span for each signaled request.
#include "common/fabric/trace/trace_fabric.h"

#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <filesystem>
#include <map>

#include "common/fabric/shm/shm.h"
#include "tests/support/backends.h"

namespace loch::fabric {
namespace {

coro::Task<void> traffic(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  for (int i = 0; i < 5; ++i) {
    const LocalSlice here = cluster->at(0, 0);
    const Completion read = co_await worker.read(cluster->remote[1], 0, here, 64);
    EXPECT_TRUE(read.ok());
  }
  std::array<WorkRequest, 2> chain{
      one_sided(Verb::write, cluster->remote[1], 0, cluster->at(0, 0), 8, nullptr),
      one_sided(Verb::write, cluster->remote[1], memory_bytes, cluster->at(0, 0), 8, nullptr)};
  chain[0].is_signaled = false;
  const WcStatus status = co_await worker.post_and_wait(chain);
  EXPECT_EQ(status, WcStatus::remote_access);
}

TEST(TraceFabric, WritesASpanForEverySignaledRequest) {
  const auto path =
      std::filesystem::temp_directory_path() / ("loch-traced-" + std::to_string(getpid()) + ".json");
  auto writer = TraceWriter::open(path).value();
  {
    Cluster cluster(
        {"shm_traced", [&](std::uint32_t nodes, std::uint64_t) -> Result<std::unique_ptr<Fabric>> {
           LOCH_ASSIGN(auto inner, shm::make_shm({.nodes = nodes}));
           return trace_requests(std::move(inner), writer.get());
         }});
    cluster.start(0, traffic(&cluster));
    cluster.run();
  }
  ASSERT_TRUE(writer->close().has_value());
  std::map<std::string, int> boxes, instants, names;
  double last_end = 0;
  for (const YAML::Node& event : YAML::LoadFile(path)["traceEvents"]) {
    const auto phase = event["ph"].as<std::string>();
    if (phase == "M") ++names[event["args"]["name"].as<std::string>()];
    if (phase == "i") ++instants[event["name"].as<std::string>()];
    if (phase != "X") continue;
    ++boxes[event["name"].as<std::string>() + ", " + event["args"]["status"].as<std::string>()];
    EXPECT_EQ(event["args"]["peer"].as<int>(), 1);
    EXPECT_GE(event["ts"].as<double>(), last_end);  // the requests were executed one after another
    last_end = event["ts"].as<double>() + event["dur"].as<double>() - 0.0005;
  }
  EXPECT_EQ(boxes,
            (std::map<std::string, int>{{"READ 64, success", 5}, {"WRITE 8, remote access error", 1}}));
  EXPECT_EQ(instants, (std::map<std::string, int>{{"WRITE 8", 1}}));
  EXPECT_EQ(names["node 0"], 1);
  EXPECT_EQ(names["client"], 2);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace loch::fabric
