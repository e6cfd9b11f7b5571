// Tests that histories are written and read, that durable writers keep every record, and that bad input
// is refused.
#include "common/check/history.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace loch::check {
namespace {

using ::testing::HasSubstr;

Operation put(std::int32_t client, std::string key, std::string value, Nanos invoke, Nanos returned) {
  return {client, OpKind::put, Outcome::ok, std::move(key), std::move(value), invoke, returned};
}

class HistoryFile : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* const info = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::path(::testing::TempDir()) /
                 fmt::format("loch_history_{}_{}", info->name(), ::getpid());
    std::filesystem::create_directories(directory_);
    path_ = (directory_ / "h.jsonl").string();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void write_text(std::string_view text) { std::ofstream(path_, std::ios::binary) << text; }

  // Reads all operations of the history file, or returns the first error.
  Result<std::vector<Operation>> read() {
    LOCH_ASSIGN(HistoryReader reader, HistoryReader::open(path_));
    std::vector<Operation> all;
    for (;;) {
      LOCH_ASSIGN(const std::optional<Operation> operation, reader.next());
      if (!operation) return all;
      all.push_back(*operation);
    }
  }

  std::string error_of(std::string_view text) {
    write_text(text);
    const auto result = read();
    return result ? "" : result.error().message;
  }

  std::filesystem::path directory_;
  std::string path_;
};

TEST(HistoryLine, IsTheDocumentedFormat) {
  EXPECT_EQ(to_line(view(put(3, "k1", "w3.1", 5, 9))),
            "{\"client\":3,\"op\":\"put\",\"key\":\"k1\",\"value\":\"w3.1\",\"invoke_ns\":5,\"return_ns\":9,"
            "\"outcome\":\"ok\"}\n");
  const Operation lost{0, OpKind::remove, Outcome::unknown, "k", std::nullopt, 7, std::nullopt};
  EXPECT_EQ(to_line(view(lost)),
            "{\"client\":0,\"op\":\"delete\",\"key\":\"k\",\"value\":null,\"invoke_ns\":7,\"return_ns\":null,"
            "\"outcome\":\"unknown\"}\n");
}

TEST(HistoryLine, AnyByteSurvivesInAName) {
  Operation operation = put(1, "", "quote\" back\\ \n tab\t", 1, 2);
  for (int c = 0; c < 256; ++c) operation.key.push_back(static_cast<char>(c));
  const std::string line = to_line(view(operation));
  const auto again = parse_line(std::string_view(line).substr(0, line.size() - 1), "f", 1);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, operation);
}

TEST(HistoryLine, FieldsMayComeInAnyOrderAndSpacing) {
  const auto operation = parse_line(
      R"( { "outcome" : "not_found", "return_ns":4,"invoke_ns":3, "value" : null,"key":"\u0041","op":"get","client":-1 } )",
      "f", 1);
  // The line is refused only because client -1, the preload, must not issue a GET; its field order and
  // blanks are valid.
  ASSERT_FALSE(operation);
  EXPECT_THAT(operation.error().message, HasSubstr("f:1: field \"client\": -1, the preload"));
}

TEST_F(HistoryFile, ManyWorkersRecordAtOnce) {
  constexpr int clients = 4;
  constexpr int each = 5'000;
  auto writer = HistoryWriter::create(path_);
  ASSERT_TRUE(writer);
  std::vector<std::thread> workers;
  workers.reserve(clients);
  for (int c = 0; c < clients; ++c) {
    workers.emplace_back([&writer, c] {
      ClientLog& log = (*writer)->log(c);
      for (int i = 0; i < each; ++i) {
        const std::string value = fmt::format("w{}.{}", c, i);
        log.record({0, OpKind::put, Outcome::ok, "key", value, i, i + 1});
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE((*writer)->close());
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
  const auto all = read();
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), static_cast<std::size_t>(clients * each));
  // for each client, the number in the value that its next operation must have: a client's lines are in order
  // of recording
  std::vector<int> next(clients, 0);
  for (const Operation& operation : *all) {
    EXPECT_EQ(operation.value,
              fmt::format("w{}.{}", operation.client, next[static_cast<std::size_t>(operation.client)]++));
  }
}

TEST_F(HistoryFile, AnAbandonedWriterLeavesNothing) {
  {
    auto writer = HistoryWriter::create(path_);
    ASSERT_TRUE(writer);
    (*writer)->log(0).record({0, OpKind::get, Outcome::not_found, "k", std::nullopt, 1, 2});
    EXPECT_TRUE(std::filesystem::exists(path_ + ".partial"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(HistoryFile, ADurableWriterLeavesWholeLinesWhenItsProcessDies) {
  {
    auto writer = HistoryWriter::create(path_, {.durable = true});
    ASSERT_TRUE(writer);
    ClientLog& log = (*writer)->log(2);
    log.invoked(OpKind::put, "k", "w2.1", 5);
  }
  std::filesystem::rename(path_ + ".partial", path_);
  const auto all = read();
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 1U);
  EXPECT_EQ(all->front().outcome, Outcome::unknown);
  EXPECT_FALSE(all->front().return_ns.has_value());
}

TEST_F(HistoryFile, AnUnwritablePathIsOneLine) {
  const auto writer = HistoryWriter::create((directory_ / "none" / "h.jsonl").string());
  ASSERT_FALSE(writer);
  EXPECT_THAT(writer.error().message, HasSubstr("cannot create"));
  EXPECT_EQ(writer.error().code, ErrorCode::invalid_argument);
}

TEST_F(HistoryFile, BadInputNamesFileLineAndField) {
  const std::string good = to_line(view(put(0, "k", "w0.1", 1, 2)));
  EXPECT_EQ(error_of(good), "");
  EXPECT_THAT(error_of(good + good.substr(0, good.size() - 5)),
              HasSubstr(path_ + ":2: expected a line that ends"));
  EXPECT_THAT(error_of(good + "\n"), HasSubstr(":2: column 1: expected \"{\""));
  EXPECT_THAT(error_of(good + "{\"client\":1.5,"), HasSubstr(":2:"));
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return error_of(text);
  };
  EXPECT_THAT(with("\"put\"", "\"scan\""),
              HasSubstr(":1: field \"op\": expected get, put, delete, insert_if_absent or lost"));
  EXPECT_THAT(with("\"client\":0", "\"client\":\"0\""), HasSubstr("field \"client\": expected an integer"));
  EXPECT_THAT(with("\"client\":0", "\"client\":99999999999"),
              HasSubstr("field \"client\": expected a 32-bit"));
  EXPECT_THAT(with("\"client\":0", "\"client\":1.5"), HasSubstr("expected \",\""));
  EXPECT_THAT(with("\"key\"", "\"kee\""), HasSubstr("expected one of client, op, key"));
  EXPECT_THAT(with("\"key\":\"k\"", "\"client\":0"), HasSubstr("\"client\" only once"));
  EXPECT_THAT(with("\"w0.1\"", "null"), HasSubstr("field \"value\": expected what was put"));
  EXPECT_THAT(with("\"w0.1\"", "12"), HasSubstr("field \"value\": expected a string or null"));
  EXPECT_THAT(with("\"return_ns\":2", "\"return_ns\":0"),
              HasSubstr("field \"return_ns\": expected at least invoke_ns"));
  EXPECT_THAT(with("\"return_ns\":2", "\"return_ns\":null"), HasSubstr("\"unknown\" only"));
  EXPECT_THAT(with("\"invoke_ns\":1", "\"invoke_ns\":-1"),
              HasSubstr("field \"invoke_ns\": expected 0 or more"));
  EXPECT_THAT(with("\"invoke_ns\":1", "\"invoke_ns\":99999999999999999999"),
              HasSubstr("expected an integer"));
  EXPECT_THAT(with("\"ok\"", "\"fine\""), HasSubstr("field \"outcome\": expected ok, not_found"));
  EXPECT_THAT(with("\"k\"", "\"\\q\""), HasSubstr("expected a JSON escape"));
  EXPECT_THAT(with("\"k\"", "\"\\u12\""), HasSubstr("hexadecimal"));
  EXPECT_THAT(with("\"ok\"}", "\"ok\"} x"), HasSubstr("expected nothing after"));
}

TEST_F(HistoryFile, ALineHasALimit) {
  EXPECT_THAT(error_of(std::string(3 << 20, 'x')), HasSubstr(":1: expected a line of at most 1048576 bytes"));
}

TEST_F(HistoryFile, AMissingFileIsOneLine) {
  const auto reader = HistoryReader::open(path_);
  ASSERT_FALSE(reader);
  EXPECT_THAT(reader.error().message, HasSubstr("cannot read: No such file"));
}

}  // namespace
}  // namespace loch::check
