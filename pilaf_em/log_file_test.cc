// Tests the real file and its system calls: this program replaces libc's fdatasync, fsync and pwrite by
// functions that count calls, fail on demand and write less than requested. A log that does not call them, or
// ignores their results, fails these tests.
#include "pilaf_em/log_file.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "pilaf_em/log.h"
#include "pilaf_em/test_folder.h"

namespace {

struct Calls {
  int fdatasyncs = 0, fsyncs = 0;
  int fdatasync_error = 0, fsync_error = 0;  // errno of all following calls; 0: they succeed
  long most_written = 1 << 30;               // largest number of bytes that one pwrite accepts
  int pwrite_error = 0;
};
Calls calls;  // state of the libc functions defined below

int result(int error) {
  errno = error;
  return error == 0 ? 0 : -1;
}

}  // namespace

extern "C" int fdatasync(int file) {
  ++calls.fdatasyncs;
  if (calls.fdatasync_error != 0) return result(calls.fdatasync_error);
  return static_cast<int>(syscall(SYS_fdatasync, file));
}

extern "C" int fsync(int file) {
  ++calls.fsyncs;
  if (calls.fsync_error != 0) return result(calls.fsync_error);
  return static_cast<int>(syscall(SYS_fsync, file));
}

extern "C" ssize_t pwrite(int file, const void* bytes, size_t count, off_t at) {
  if (calls.pwrite_error != 0) return result(calls.pwrite_error);
  if (static_cast<long>(count) > calls.most_written) count = static_cast<size_t>(calls.most_written);
  return syscall(SYS_pwrite64, file, bytes, count, at);
}

namespace loch::pilaf::testing {
namespace {

LogBytes span(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

class RealFile : public ::testing::Test {
 protected:
  void TearDown() override { calls = {}; }

  [[nodiscard]] Result<std::unique_ptr<Log>> open(LogSync sync) {
    replayed_.clear();
    const LogVisitor visitor{.put =
                                 [this](LogBytes key, LogBytes) {
                                   replayed_.emplace_back(reinterpret_cast<const char*>(key.data()),
                                                          key.size());
                                   return Result<>();
                                 },
                             .remove = [](LogBytes) { return Result<>(); }};
    return Log::open(disk_, folder_ / "log", {}, {.sync = sync}, visitor);
  }

  Folder folder_;
  PosixDisk disk_;
  std::vector<std::string> replayed_;
};

TEST_F(RealFile, IsSyncedOnceForEachRecordInModeFsyncAlone) {
  for (const LogSync sync : {LogSync::fsync, LogSync::write, LogSync::async}) {
    const auto log = open(sync);
    ASSERT_TRUE(log.has_value());
    calls = {};
    for (int i = 1; i <= 5; ++i) {
      ASSERT_TRUE((*log)->append_put(span("key"), span("value")));
      EXPECT_EQ(calls.fdatasyncs, sync == LogSync::fsync ? i : 0);
    }
    ASSERT_TRUE((*log)->flush());
  }
}

// A new file survives a power failure only if its directory entry is synced too.
TEST_F(RealFile, ItsHeaderAndItsNameAreSyncedWhenItIsMade) {
  for (const LogSync sync : {LogSync::fsync, LogSync::write, LogSync::async}) {
    std::filesystem::remove(folder_ / "log");
    calls = {};
    ASSERT_TRUE(open(sync).has_value());
    EXPECT_EQ(calls.fdatasyncs, 1);
    EXPECT_EQ(calls.fsyncs, 1);
    std::filesystem::remove(folder_ / "log");
    calls.fsync_error = EIO;
    const auto refused = open(sync);
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message.find("Input/output error"), std::string::npos);
  }
}

TEST_F(RealFile, AFailedSyncClosesTheLogForGood) {
  const auto log = open(LogSync::fsync);
  ASSERT_TRUE(log.has_value());
  ASSERT_TRUE((*log)->append_put(span("a"), span("value")));
  calls = {.fdatasync_error = EIO};
  EXPECT_FALSE((*log)->append_put(span("b"), span("value")));
  EXPECT_FALSE((*log)->is_open());
  calls.fdatasync_error = 0;  // as on Linux, where a retried fdatasync may succeed although data was lost
  EXPECT_FALSE((*log)->append_put(span("c"), span("value")));
  EXPECT_FALSE((*log)->append_remove(span("a")));
  EXPECT_FALSE((*log)->flush());
  EXPECT_EQ(calls.fdatasyncs, 1) << "no second try";
  EXPECT_EQ((*log)->acknowledged(), 1u);
  ASSERT_EQ((*log)->notes().size(), 1u);
  EXPECT_EQ((*log)->notes()[0],
            "pilaf.log: " + (folder_ / "log") +
                ": cannot be brought to the disk: Input/output error; closed after 1 records: "
                "its server's PUTs and DELETEs fail since");
}

TEST_F(RealFile, AFullDiskClosesTheLogForGood) {
  for (const LogSync sync : {LogSync::fsync, LogSync::write, LogSync::async}) {
    std::filesystem::remove(folder_ / "log");
    {
      const auto log = open(sync);
      ASSERT_TRUE(log.has_value());
      ASSERT_TRUE((*log)->append_put(span("a"), span("value")));
      ASSERT_TRUE((*log)->flush());
      calls.pwrite_error = ENOSPC;
      const bool is_fine = (*log)->append_put(span("b"), span("value"));
      EXPECT_EQ(is_fine, sync == LogSync::async) << "async knows it later";
      EXPECT_FALSE((*log)->flush());
      calls.pwrite_error = 0;
      EXPECT_FALSE((*log)->append_put(span("c"), span("value")));
      EXPECT_EQ((*log)->acknowledged(), 1u);
    }
    ASSERT_TRUE(open(sync).has_value());
    EXPECT_EQ(replayed_, (std::vector<std::string>{"a"}));
  }
}

TEST_F(RealFile, ShortWritesAreGoneOnWith) {
  for (const LogSync sync : {LogSync::fsync, LogSync::write, LogSync::async}) {
    std::filesystem::remove(folder_ / "log");
    calls = {.most_written = 3};
    {
      const auto log = open(sync);
      ASSERT_TRUE(log.has_value());
      ASSERT_TRUE((*log)->append_put(span("a"), span(std::string(100, 'v'))));
      ASSERT_TRUE((*log)->append_put(span("b"), span("value")));
      ASSERT_TRUE((*log)->flush());
    }
    const auto log = open(sync);
    ASSERT_TRUE(log.has_value());
    EXPECT_EQ(replayed_, (std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE((*log)->notes().empty());
  }
}

}  // namespace
}  // namespace loch::pilaf::testing
