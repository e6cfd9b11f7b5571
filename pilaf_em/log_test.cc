// Tests the log on a real file: recovery of appended records, cutting off damage, locks and owners, and files
// that are no logs.
#include "pilaf_em/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "common/base/check.h"
#include "pilaf_em/checksum.h"
#include "pilaf_em/test_folder.h"

namespace loch::pilaf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LogBytes span(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
std::string text(LogBytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

using Contents = std::map<std::string, std::string>;
LogVisitor into(Contents& contents) {
  return {.put =
              [&](LogBytes key, LogBytes value) {
                contents[text(key)] = text(value);
                return Result<>();
              },
          .remove =
              [&](LogBytes key) {
                contents.erase(text(key));
                return Result<>();
              }};
}

const LogOwner owner{.node = 1, .server = 2, .nodes = 3, .servers = 4, .key_size = 5, .seed = 6};

Result<std::unique_ptr<Log>> try_open(const std::string& path, Contents& contents, bool repairs = false,
                                      LogSync sync = LogSync::write, const LogOwner& whose = owner) {
  static PosixDisk disk;
  return Log::open(disk, path, whose, {.sync = sync, .repairs = repairs}, into(contents));
}

std::unique_ptr<Log> open(const std::string& path, LogSync sync, Contents& contents) {
  auto log = try_open(path, contents, false, sync);
  LOCH_CHECK(log.has_value(), "{}", log.error().message);
  return std::move(*log);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Log, GivesBackWhatWasPutAndNotRemoved) {
  for (const LogSync sync : {LogSync::async, LogSync::write, LogSync::fsync}) {
    const Folder folder;
    const std::string path = folder / "log";
    Contents model, none, replayed;
    {
      const auto log = open(path, sync, none);
      for (int i = 0; i < 300; ++i) {
        const std::string key = "key" + std::to_string(i % 40);
        if (i % 7 == 3) {
          ASSERT_TRUE(log->append_remove(span(key)));
          model.erase(key);
        } else {
          model[key] = std::string(static_cast<std::size_t>(i), 'x');
          ASSERT_TRUE(log->append_put(span(key), span(model[key])));
        }
      }
      ASSERT_TRUE(log->flush());
      EXPECT_EQ(log->acknowledged(), 300u);
    }
    EXPECT_TRUE(none.empty());
    const auto log = open(path, sync, replayed);
    EXPECT_EQ(replayed, model);
    EXPECT_EQ(log->recovered().records, 300u);
    EXPECT_EQ(log->recovered().bytes_dropped, 0u);
    EXPECT_TRUE(log->notes().empty());
  }
}

// A log that is cut off at any byte recovers the whole records before the cut, reports what it dropped, and
// accepts appends.
TEST(Log, EndsAtTheFirstRecordThatIsNotWhole) {
  const Folder folder;
  const std::string path = folder / "log";
  Contents none;
  std::vector<std::uintmax_t> ends;
  {
    const auto log = open(path, LogSync::write, none);
    ends.push_back(std::filesystem::file_size(path));
    for (int i = 0; i < 6; ++i) {
      const std::string key(1, static_cast<char>('a' + i));
      ASSERT_TRUE(i == 4 ? log->append_remove(span("a")) : log->append_put(span(key), span("value")));
      ends.push_back(std::filesystem::file_size(path));
    }
  }
  const std::string whole_file = read_file(path), cut = folder / "cut";
  for (std::uintmax_t size = ends.back() + 1; size-- > 0;) {
    SCOPED_TRACE("size " + std::to_string(size));
    write_file(cut, whole_file.substr(0, size));
    std::uint64_t whole = 0;
    while (whole + 1 < ends.size() && ends[whole + 1] <= size) ++whole;
    const std::uintmax_t dropped = size < ends[0] ? size : size - ends[whole];
    Contents replayed;
    {
      const auto log = open(cut, LogSync::write, replayed);
      EXPECT_EQ(log->recovered().records, whole);
      EXPECT_EQ(log->recovered().bytes_dropped, dropped);
      ASSERT_EQ(log->notes().size(), dropped > 0 ? 1u : 0u);
      if (dropped > 0)
        EXPECT_THAT(log->notes()[0], HasSubstr("a torn tail of " + std::to_string(dropped) + " bytes"));
      ASSERT_TRUE(log->append_put(span("z"), span("last")));
    }
    Contents again;
    const auto log = open(cut, LogSync::write, again);
    EXPECT_EQ(log->recovered().records, whole + 1);
    EXPECT_EQ(again["z"], "last");
    EXPECT_TRUE(log->notes().empty());
  }
}

// Regression: one flipped bit at byte 300 of 20,000 synced records made recovery drop all of them silently.
TEST(Log, AFlippedBitInTheMiddleIsRefusedAndCutWhenAsked) {
  const Folder folder;
  const std::string path = folder / "log";
  Contents none, replayed;
  {
    const auto log = open(path, LogSync::fsync, none);
    for (int i = 0; i < 200; ++i)
      ASSERT_TRUE(log->append_put(span("key" + std::to_string(i)), span(std::string(64, 'v'))));
  }
  std::string bytes = read_file(path);
  bytes[300] = static_cast<char>(bytes[300] ^ 1);
  write_file(path, bytes);
  const auto refused = try_open(path, replayed);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  // Expected offsets: a file header of 48 bytes, then records with a head of 24, a key of 4, a value of 64
  // and a checksum of 8 bytes.
  EXPECT_EQ(
      refused.error().message,
      "pilaf.log: " + path +
          ": damaged at byte 248, in record 3: 197 intact records lie behind; expected a whole copy, or "
          "--pilaf.log-repair true, which cuts the log there");
  EXPECT_EQ(read_file(path), bytes) << "a refusal changes nothing";

  replayed.clear();
  const auto cut = try_open(path, replayed, true);
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(replayed.size(), 2u);
  EXPECT_THAT(
      (*cut)->notes(),
      ElementsAre("pilaf.log: " + path + ": pilaf.log-repair cut " + std::to_string(bytes.size() - 248) +
                  " bytes from byte 248 on: 198 records with them, 197 of these intact"));
  EXPECT_EQ(std::filesystem::file_size(path), 248u);
}

// Compares the log with docs/formats.md byte by byte: a change of the format needs a new version.
TEST(Log, HasTheBytesOfItsFormat) {
  const Folder folder;
  Contents none;
  {
    const auto log = open(folder / "log", LogSync::write, none);
    ASSERT_TRUE(log->append_put(span("key"), span("value")));
    ASSERT_TRUE(log->append_remove(span("key")));
  }
  {
    const auto log = open(folder / "log", LogSync::fsync, none);
    ASSERT_TRUE(log->append_put(span("k"), span("")));
  }
  const std::string bytes = read_file(folder / "log");
  ASSERT_EQ(bytes.size(), 48u + (24 + 3 + 5 + 8) + (24 + 3 + 8) + (24 + 1 + 8));
  EXPECT_EQ(bytes.substr(0, 12), std::string("LOCHPLF2\1\0\0\0", 12));
  EXPECT_EQ(bytes.substr(48, 12), std::string("PLFP\3\0\0\0\5\0\0\0", 12));
  EXPECT_EQ(bytes.substr(64, 16), std::string("\1\0\0\0\0\0\0\0keyvalue", 16));
  EXPECT_EQ(bytes.substr(88, 12), std::string("PLFD\3\0\0\0\0\0\0\0", 12));
  EXPECT_EQ(bytes.substr(104, 11), std::string("\2\0\0\0\0\0\0\0key", 11));
  EXPECT_EQ(bytes.substr(123, 12), std::string("PLSP\1\0\0\0\0\0\0\0", 12));
}

TEST(Log, AnotherDeploymentsIsRefused) {
  const Folder folder;
  const std::string path = folder / "log";
  Contents none;
  {
    const auto log = open(path, LogSync::write, none);
  }
  LogOwner other = owner;
  other.key_size = 99;
  const auto refused = try_open(path, none, true, LogSync::write, other);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(refused.error().message, HasSubstr(path + ": is no log of server 2 of node 1"));
  const auto nowhere = try_open(folder / "no/such/folder", none);
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code, ErrorCode::invalid_argument);
}

// A file that is not a log of this server is left unchanged, even with --pilaf.log-repair.
TEST(Log, WhatIsNoLogIsRefusedAndLeftAlone) {
  const Folder folder;
  Contents none;
  for (const std::string& bytes :
       {std::string("a letter"), std::string(48, 'x'), std::string(5'000, 'P'), std::string(5'000, '\0')}) {
    write_file(folder / "file", bytes);
    for (const bool repairs : {false, true}) {
      const auto refused = try_open(folder / "file", none, repairs);
      ASSERT_FALSE(refused.has_value());
      EXPECT_THAT(refused.error().message, HasSubstr("is no log of server 2 of node 1"));
    }
    EXPECT_EQ(read_file(folder / "file"), bytes);
  }
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto pipe = try_open(folder / "pipe", none);
  ASSERT_FALSE(pipe.has_value());
  EXPECT_THAT(pipe.error().message, HasSubstr("is no regular file"));
}

TEST(Log, OfAnotherVersionIsRefused) {
  const Folder folder;
  Contents none;
  // This owner's header in version 1 of the format.
  std::string bytes = text(log_header(owner)).substr(0, 40);
  bytes[7] = '1';
  const std::uint64_t crc = crc64(span(bytes));
  bytes.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  write_file(folder / "log", bytes + "P");
  const auto refused = try_open(folder / "log", none, true);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("is a log of another version of the format"));
  EXPECT_EQ(read_file(folder / "log"), bytes + "P");
}

// A log that is open in one server cannot be opened by another, which would damage it.
TEST(Log, IsOneServersAtATime) {
  const Folder folder;
  Contents none;
  const auto first = open(folder / "log", LogSync::write, none);
  const auto second = try_open(folder / "log", none);
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().message, HasSubstr("is another running server's"));
}

}  // namespace
}  // namespace loch::pilaf::testing
