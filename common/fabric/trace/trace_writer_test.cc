// Tests the trace file: it has the fields that Perfetto needs, overlapping boxes are on separate tracks, and
// no incomplete file is left behind.
#include "common/fabric/trace/trace_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace loch::fabric {
namespace {

class TraceWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("loch-trace-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "t.json";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string content() const {
    std::ifstream in(path_);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  std::filesystem::path folder_, path_;
};

TEST_F(TraceWriterTest, WritesWhatPerfettoReads) {
  auto writer = TraceWriter::open(path_);
  ASSERT_TRUE(writer.has_value());
  (*writer)->name_node(2, "node 2");
  (*writer)->name_track(2, 7, "client \"7\"\n");
  (*writer)->span(2, 7, "READ\t\\", 1'234'567, 89, R"({"bytes":64})");
  (*writer)->instant(2, 7, "doorbell", 5);
  ASSERT_TRUE((*writer)->close().has_value());

  const YAML::Node events = YAML::Load(content())["traceEvents"];  // YAML-cpp can parse JSON
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["ph"].as<std::string>(), "M");
  EXPECT_EQ(events[0]["name"].as<std::string>(), "process_name");
  EXPECT_EQ(events[0]["args"]["name"].as<std::string>(), "node 2");
  EXPECT_EQ(events[1]["name"].as<std::string>(), "thread_name");
  EXPECT_EQ(events[1]["args"]["name"].as<std::string>(), "client \"7\"\n");
  EXPECT_EQ(events[2]["ph"].as<std::string>(), "X");
  EXPECT_EQ(events[2]["pid"].as<int>(), 2);
  EXPECT_EQ(events[2]["tid"].as<int>(), 7);
  EXPECT_EQ(events[2]["ts"].as<std::string>(), "1234.567");
  EXPECT_EQ(events[2]["dur"].as<std::string>(), "0.089");
  EXPECT_EQ(events[2]["name"].as<std::string>(), "READ\t\\");
  EXPECT_EQ(events[2]["args"]["bytes"].as<int>(), 64);
  EXPECT_EQ(events[3]["ph"].as<std::string>(), "i");
  EXPECT_EQ(events[3]["ts"].as<std::string>(), "0.005");
  EXPECT_THAT(content(), testing::HasSubstr("\\u0009"));
}

// Perfetto drops boxes that overlap on one track, so the writer puts them on separate tracks.
TEST_F(TraceWriterTest, WhatOverlapsGoesToFurtherLanes) {
  auto writer = TraceWriter::open(path_);
  ASSERT_TRUE(writer.has_value());
  (*writer)->name_track(1, 7, "link");
  (*writer)->span(1, 7, "a", 0, 10);
  (*writer)->span(1, 7, "b", 10, 10);  // box b begins where box a ends
  (*writer)->span(1, 7, "c", 15, 10);  // box c overlaps box b
  (*writer)->span(1, 7, "d", 22, 10);  // box d overlaps box c alone
  (*writer)->span(1, 7, "e", 26, 1);   // box e overlaps box d alone
  (*writer)->span(2, 7, "f", 15, 10);  // box f is on another node's track
  ASSERT_TRUE((*writer)->close().has_value());
  std::vector<std::string> boxes, names;
  for (const YAML::Node& event : YAML::Load(content())["traceEvents"]) {
    const std::string track = event["pid"].as<std::string>() + "/" + event["tid"].as<std::string>();
    if (event["ph"].as<std::string>() == "X")
      boxes.push_back(event["name"].as<std::string>() + " " + track);
    else
      names.push_back(event["args"]["name"].as<std::string>() + " " + track);
  }
  EXPECT_THAT(boxes, testing::ElementsAre("a 1/7", "b 1/7", "c 1/1000007", "d 1/7", "e 1/1000007", "f 2/7"));
  EXPECT_THAT(names, testing::ElementsAre("link 1/7", "link (2) 1/1000007"));
}

TEST_F(TraceWriterTest, NothingHalfWrittenHasTheName) {
  {
    auto writer = TraceWriter::open(path_);
    ASSERT_TRUE(writer.has_value());
    (*writer)->instant(0, 0, "x", 1);
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(TraceWriterTest, RefusesAPathItCannotWrite) {
  const auto writer = TraceWriter::open(folder_ / "missing" / "t.json");
  ASSERT_FALSE(writer.has_value());
  EXPECT_THAT(writer.error().message, testing::HasSubstr("missing/t.json"));
}

TEST_F(TraceWriterTest, AnEmptyTraceIsValid) {
  auto writer = TraceWriter::open(path_);
  ASSERT_TRUE((*writer)->close().has_value());
  EXPECT_EQ(YAML::Load(content())["traceEvents"].size(), 0u);
}

TEST_F(TraceWriterTest, ThreadsShareIt) {
  auto writer = TraceWriter::open(path_);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i) (*writer)->span(0, t, "READ", i * 10, 5);
      });
    }
  }
  ASSERT_TRUE((*writer)->close().has_value());
  EXPECT_EQ(YAML::Load(content())["traceEvents"].size(), 2000u);
}

}  // namespace
}  // namespace loch::fabric
