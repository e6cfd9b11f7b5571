// Tests binary histories: they contain the same operations as text histories, lose no operation when a log's
// ring buffer is full or a process is killed, and are refused if they are cut short or damaged.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/base/rng.h"
#include "common/check/binary_sink.h"
#include "common/check/linearizable.h"

namespace loch::check {
namespace {

using ::testing::HasSubstr;

class BinaryHistory : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* const info = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::path(::testing::TempDir()) /
                 fmt::format("loch_binary_{}_{}", info->name(), ::getpid());
    std::filesystem::create_directories(directory_);
    path_ = directory_ / "h.bin";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static HistoryWriter::Options binary(std::uint32_t ring_chunks = 4) {
    return {.format = HistoryFormat::binary, .ring_chunks = ring_chunks};
  }

  static Result<std::vector<Operation>> read(const std::string& path) {
    LOCH_ASSIGN(HistoryReader reader, HistoryReader::open(path));
    std::vector<Operation> all;
    for (;;) {
      LOCH_ASSIGN(const std::optional<Operation> operation, reader.next());
      if (!operation) return all;
      all.push_back(*operation);
    }
  }

  // Writes a history that consists of these operations of one client.
  void write(const std::vector<Operation>& operations) const {
    auto writer = HistoryWriter::create(path_, binary());
    ASSERT_TRUE(writer) << writer.error().message;
    ClientLog& log = (*writer)->log(operations.front().client);
    for (const Operation& operation : operations) log.record(view(operation));
    const auto closed = (*writer)->close();
    ASSERT_TRUE(closed) << closed.error().message;
  }

  [[nodiscard]] std::string bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::filesystem::path directory_;
  std::string path_;
};

std::string some_name(Rng& rng) {
  switch (rng.below(8)) {
    case 0:
      return "init";
    case 1:
      return fmt::format("w{}.{}", rng.below(500), rng());
    case 2:
      return fmt::format("user{}", rng());
    case 3:
      // Names that resemble those stored as numbers, such as "user7" and "w1.2". All but "user0" and "w0.0"
      // have to be stored as text.
      return std::vector<std::string>{"user",
                                      "user01",
                                      "w1.02",
                                      "w.1",
                                      "w1.",
                                      "user18446744073709551616",
                                      "user18446744073709551615",
                                      "user99999999999999999999",
                                      "user1844674407370955161:",
                                      "user018446744073709551615",
                                      "user0",
                                      "w0.0",
                                      ""}[rng.below(13)];
    case 4:
      return std::string(rng.below(8) == 0 ? 40'000 : rng.below(100), 'x');
    default:
      return fmt::format("k{}", rng.below(100));
  }
}

// The operations as sorted lines of a text history. Sorted, because the file need not be in the order of
// recording: a log collects operations in a chunk and writes the chunk as one block, but an operation too
// large for a chunk is written at once.
std::vector<std::string> sorted_lines(const std::vector<Operation>& operations) {
  std::vector<std::string> lines;
  for (const Operation& operation : operations) lines.push_back(to_line(view(operation)));
  std::ranges::sort(lines);
  return lines;
}

// Random operations without contradictions (why_impossible() accepts them): of all kinds, with names of all
// forms and times in any order.
std::vector<Operation> some_operations(std::uint64_t seed, int count) {
  Rng rng(seed, "binary history");
  std::vector<Operation> all;
  while (all.size() < static_cast<std::size_t>(count)) {
    Operation o{3,
                static_cast<OpKind>(rng.below(4)),
                static_cast<Outcome>(rng.below(5)),
                some_name(rng),
                {},
                static_cast<Nanos>(rng() >> (1 + rng.below(63))),
                {}};
    if (rng.below(4) > 0) o.return_ns = o.invoke_ns + static_cast<Nanos>(rng.below(1'000'000));
    if (rng.below(2) > 0) o.value = some_name(rng);
    if (why_impossible(view(o)).empty()) all.push_back(std::move(o));
  }
  return all;
}

TEST_F(BinaryHistory, HoldsEveryOperationAsItWas) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<Operation> operations = some_operations(seed, 2'000);
    write(operations);
    const auto found = read(path_);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(sorted_lines(*found), sorted_lines(operations));
  }
}

TEST_F(BinaryHistory, AnOperationOfALoadTakesFewBytes) {
  std::vector<Operation> operations;
  for (int i = 0; i < 100'000; ++i) {
    const auto at = static_cast<Nanos>(i) * 3'000;
    operations.push_back({7, OpKind::put, Outcome::ok,
                          fmt::format("user{}", mix64(static_cast<std::uint64_t>(i))),
                          fmt::format("w7.{}", i), at, at + 2'900});
  }
  write(operations);
  EXPECT_LT(std::filesystem::file_size(path_), operations.size() * 24);
  // Keys of up to 64 bytes whose names have to be stored as text.
  for (Operation& operation : operations) operation.key = operation.key + std::string(40, '.');
  write(operations);
  EXPECT_LT(std::filesystem::file_size(path_), operations.size() * 120);
}

TEST_F(BinaryHistory, AFullRingMakesTheWorkerWaitAndLosesNothing) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const std::vector<Operation> operations = some_operations(9, 3'000);
  std::string read_back;
  std::thread reader([&] {
    const int descriptor = ::open(path_.c_str(), O_RDONLY);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::vector<char> buffer(1 << 16);
    for (ssize_t got = 0; (got = ::read(descriptor, buffer.data(), buffer.size())) > 0;)
      read_back.append(buffer.data(), static_cast<std::size_t>(got));
    ::close(descriptor);
  });
  auto writer = HistoryWriter::create(path_, binary(2));
  ASSERT_TRUE(writer);
  ClientLog& log = (*writer)->log(3);
  for (int round = 0; round < 20; ++round) {
    for (const Operation& operation : operations) {
      if (operation.key.size() < 100 && (!operation.value || operation.value->size() < 100))
        log.record(view(operation));
    }
  }
  ASSERT_TRUE((*writer)->close());
  const HistoryStatistics statistics = (*writer)->statistics();
  writer->reset();
  reader.join();
  EXPECT_GT(statistics.waits, 0U);
  EXPECT_GT(statistics.waited_s, 0.05);
  EXPECT_EQ(statistics.bytes, read_back.size());
  auto again = HistoryReader::over("fifo", read_back);
  ASSERT_TRUE(again);
  std::uint64_t count = 0;
  for (;; ++count) {
    const auto next = again->advance();
    ASSERT_TRUE(next) << next.error().message;
    if (*next == nullptr) break;
  }
  EXPECT_EQ(count, statistics.operations);
  EXPECT_GT(count, 20'000U);
}

TEST_F(BinaryHistory, AFullDiskIsAnErrorAndNoHang) {
  auto writer = HistoryWriter::create("/dev/full", binary(2));
  if (writer) {
    ClientLog& log = (*writer)->log(3);
    for (const Operation& operation : some_operations(4, 20'000)) log.record(view(operation));
    const auto closed = (*writer)->close();
    ASSERT_FALSE(closed);
    EXPECT_THAT(closed.error().message, HasSubstr("No space left"));
  } else {
    EXPECT_THAT(writer.error().message, HasSubstr("No space left"));
  }
}

TEST_F(BinaryHistory, AKilledProcessLeavesWhatItRecorded) {
  const std::vector<Operation> operations = some_operations(5, 6'000);
  const std::string part = path_ + ".rank0";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto writer =
        HistoryWriter::create(part, {.durable = true, .format = HistoryFormat::binary, .ring_chunks = 4});
    ClientLog& log = (*writer)->log(3);
    for (const Operation& operation : operations) log.record(view(operation));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto joined = join_histories(path_, {part, path_ + ".rank1"}, HistoryFormat::binary);
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_EQ(joined->operations, operations.size());
  const auto found = read(path_);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(sorted_lines(*found), sorted_lines(operations));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

// The half line at the end of a killed process's text history is left out when histories are joined, whether
// or not their times are translated: otherwise the next process's first line would be appended to the half
// one.
TEST_F(BinaryHistory, HalfALineOfAKilledProcessIsDropped) {
  const std::vector<Operation> operations = some_operations(7, 6'000);
  std::string whole;
  for (const Operation& operation : operations) append_line(view(operation), whole);
  // longer than the pieces of 256 KiB in which translated lines are written
  ASSERT_GT(whole.size(), 256U * 1024);
  const std::string half = to_line(view(operations.front())).substr(0, 40);
  const ClockMap same_clock({{0, 0, 0}}, {.drift_ppm = 0});
  for (const std::vector<ClockMap>& clocks : {std::vector<ClockMap>{}, {same_clock, same_clock}}) {
    const std::vector<std::string> parts{path_ + ".rank0", path_ + ".rank1"};
    std::ofstream(parts[0] + ".partial") << whole << half;
    std::ofstream(parts[1]) << whole;
    const auto joined = join_histories(path_, parts, HistoryFormat::text, clocks);
    ASSERT_TRUE(joined) << joined.error().message;
    const auto found = read(path_);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->size(), 2 * operations.size());
  }
}

// In both formats, the second process's clock is 1,000 ns ahead of the reference clock, known with an error
// of 30 ns.
TEST_F(BinaryHistory, PartsAreTranslatedToOneClock) {
  const std::vector<ClockMap> clocks{ClockMap(), ClockMap({{0, -1'000, 30}}, {.drift_ppm = 0})};
  for (const HistoryFormat format : {HistoryFormat::binary, HistoryFormat::text}) {
    const std::vector<std::string> parts{path_ + ".rank0", path_ + ".rank1"};
    for (const std::string& part : parts) {
      auto writer = HistoryWriter::create(part, {.format = format});
      ASSERT_TRUE(writer);
      (*writer)
          ->log(preload_client)
          .record({.kind = OpKind::put, .key = "user1", .value = "init", .return_ns = 0});
      ClientLog& log = (*writer)->log(3);
      log.record(
          {.kind = OpKind::get, .key = "user1", .value = "init", .invoke_ns = 5'000, .return_ns = 6'000});
      log.record({.kind = OpKind::put,
                  .outcome = Outcome::unknown,
                  .key = "user1",
                  .value = "w1.2",
                  .invoke_ns = 7'000});
      ASSERT_TRUE((*writer)->close());
    }
    const auto joined = join_histories(path_, parts, format, clocks);
    ASSERT_TRUE(joined) << joined.error().message;
    const auto found = read(path_);
    ASSERT_TRUE(found) << found.error().message;
    std::vector<std::pair<Nanos, std::optional<Nanos>>> times;
    for (const Operation& operation : *found) times.emplace_back(operation.invoke_ns, operation.return_ns);
    std::ranges::sort(times);
    const std::vector<std::pair<Nanos, std::optional<Nanos>>> wanted{
        {0, 0}, {0, 0}, {3'970, 5'030}, {5'000, 6'000}, {5'970, std::nullopt}, {7'000, std::nullopt}};
    EXPECT_EQ(times, wanted) << name(format);
  }
}

TEST_F(BinaryHistory, ASyncedOperationIsInTheFileBeforeRecordReturns) {
  HistoryWriter::Options options = binary();
  options.durable = options.is_synced = true;
  auto writer = HistoryWriter::create(path_, options);
  ASSERT_TRUE(writer);
  ClientLog& log = (*writer)->log(2);
  std::uintmax_t before = std::filesystem::file_size(path_ + ".partial");
  for (int i = 0; i < 10; ++i) {
    log.invoked(OpKind::put, "user17", fmt::format("w2.{}", i), i);
    const std::uintmax_t after = std::filesystem::file_size(path_ + ".partial");
    EXPECT_GT(after, before);
    EXPECT_LE(after - before, 120U);
    before = after;
  }
  ASSERT_TRUE((*writer)->close());
  EXPECT_EQ(read(path_)->size(), 10U);
}

TEST_F(BinaryHistory, EveryPrefixAndEveryChangedByteIsRefused) {
  write(some_operations(6, 12));
  const std::string whole = bytes();
  ASSERT_TRUE(read(path_));
  const auto error_of = [](std::string_view text) -> std::string {
    auto reader = HistoryReader::over("h.bin", text);
    for (;;) {
      const auto next = reader->advance();
      if (!next) return next.error().message;
      if (*next == nullptr) return "";
    }
  };
  for (std::size_t length = 1; length < std::min<std::size_t>(whole.size(), 4096); ++length) {
    const std::string error = error_of(std::string_view(whole).substr(0, length));
    ASSERT_THAT(error, HasSubstr(fmt::format("h.bin: byte {}: expected ", length)));
    ASSERT_THAT(error, HasSubstr("cut short"));
  }
  for (std::size_t at = 0; at < whole.size(); at += at < 200 ? 1 : 97) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    ASSERT_NE(error_of(damaged), "") << at;
    ASSERT_EQ(error_of(damaged).find('\n'), std::string::npos);
  }
  EXPECT_THAT(error_of(whole + "x"), HasSubstr(fmt::format("byte {}: expected", whole.size() + 1)));
  EXPECT_EQ(error_of(whole + whole), "") << "files that are concatenated are one history";
  std::string other_order = whole;
  std::reverse(other_order.begin() + 12, other_order.begin() + 16);
  EXPECT_EQ(error_of(other_order), "h.bin: byte 12: expected the mark of little-endian numbers, 0x01020304");
  std::string newer = whole;
  newer[8] = 2;
  EXPECT_EQ(error_of(newer), "h.bin: byte 8: expected version 1 of the format, not 2");
}

// Operations on some keys, one of which read a stale value.
std::vector<Operation> one_stale_read() {
  std::vector<Operation> all;
  for (int i = 0; i < 3'000; ++i) {
    const Nanos at = i * 100;
    const std::string key = i % 3 == 0 ? fmt::format("k{}", i % 50) : fmt::format("user{}", i % 50);
    all.push_back({3, OpKind::put, Outcome::ok, key, fmt::format("w3.{}", i), at, at + 50});
  }
  all.push_back({3, OpKind::get, Outcome::ok, "k9", "w3.9", 400'000, 400'050});
  all.push_back({-1, OpKind::lost, Outcome::ok, "n1", std::nullopt, 500'000, 500'001});
  return all;
}

TEST_F(BinaryHistory, IsJudgedAsTextIsInAnyNumberOfParts) {
  const std::vector<Operation> operations = one_stale_read();
  const std::string text = path_ + ".jsonl";
  for (const auto& [path, format] : {std::pair{path_, HistoryFormat::binary}, {text, HistoryFormat::text}}) {
    auto writer = HistoryWriter::create(path, {.format = format});
    ASSERT_TRUE(writer);
    ClientLog& log = (*writer)->log(3);
    ClientLog& losses = (*writer)->log(preload_client);
    for (const Operation& operation : operations)
      (operation.client < 0 ? losses : log).record(view(operation));
    ASSERT_TRUE((*writer)->close());
  }
  for (const std::vector<std::string>& files : {std::vector{text}, std::vector{path_}}) {
    for (const std::uint32_t parts : {1, 2, 7}) {
      const auto report = check_history(files, {}, parts);
      ASSERT_TRUE(report) << report.error().message;
      EXPECT_EQ(report->operations, operations.size());
      EXPECT_EQ(report->keys, check_operations(operations, {}).keys);
      EXPECT_EQ(report->violated_keys, 1U);
      ASSERT_EQ(report->failures.size(), 1U);
      EXPECT_EQ(report->failures.front().key, "k9");
    }
  }
  std::string damaged = bytes();
  damaged[damaged.size() / 2] ^= 1;
  std::ofstream(path_ + ".damaged", std::ios::binary) << damaged;
  for (const std::uint32_t parts : {1, 7}) {
    const auto refused = check_history({path_ + ".damaged"}, {}, parts);
    ASSERT_FALSE(refused) << "in " << parts << " parts";
    EXPECT_THAT(refused.error().message, HasSubstr("a block whose checksum is that of its bytes"));
  }
  // When keys are judged in parts, each key falls into the same part in a text and in a binary history, so
  // that files of both formats can be judged together.
  std::filesystem::copy_file(text, text + "2");
  const auto both = check_history({path_, text + "2"}, {.model = Model::none}, 3);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->keys, check_operations(operations, {}).keys);
  std::ostringstream printed;
  ASSERT_TRUE(print_history({path_}, printed));
  std::ofstream(text) << printed.str();
  const auto again = read(text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, operations) << "the printed history is the text form of the binary one";
}

}  // namespace
}  // namespace loch::check
