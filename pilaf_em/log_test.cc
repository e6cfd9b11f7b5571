// The log: records, what a torn end does, whose log it is; and what a killed process leaves behind.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "pilaf_em/log.h"
#include "pilaf_em/test_run.h"

namespace loch::pilaf::testing {
namespace {

using kv::OpStatus;

// A folder of its own, gone at the end.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "pilaf-log-XXXXXX").string();
    LOCH_CHECK(mkdtemp(pattern.data()) != nullptr, "no folder {}", pattern);
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

std::span<const std::byte> span(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
std::string text(Log::Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

using Contents = std::map<std::string, std::string>;
Log::Visitor into(Contents& contents) {
  return {.put = [&](Log::Bytes key, Log::Bytes value) { contents[text(key)] = text(value); },
          .remove = [&](Log::Bytes key) { contents.erase(text(key)); }};
}

const LogOwner owner{.node = 1, .server = 2, .nodes = 3, .servers = 4, .key_size = 5, .seed = 6};

std::unique_ptr<Log> open(const std::string& path, LogSync sync, Contents& contents) {
  auto log = Log::open(path, owner, sync, into(contents));
  LOCH_CHECK(log.has_value(), "{}", log.error().message);
  return std::move(*log);
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
    EXPECT_EQ(log->replayed().records, 300u);
    EXPECT_EQ(log->replayed().bytes_dropped, 0u);
  }
}

// Cut anywhere, the log holds the records before the cut, and goes on from there.
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
  for (std::uintmax_t size = ends.back(); size >= ends.front(); --size) {
    std::filesystem::copy_file(path, folder / "cut", std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(folder / "cut", size);
    std::uint64_t whole = 0;
    while (whole + 1 < ends.size() && ends[whole + 1] <= size) ++whole;
    Contents replayed;
    {
      const auto log = open(folder / "cut", LogSync::write, replayed);
      EXPECT_EQ(log->replayed().records, whole);
      EXPECT_EQ(log->replayed().bytes_dropped, size - ends[whole]);
      ASSERT_TRUE(log->append_put(span("z"), span("last")));
    }
    Contents again;
    const auto log = open(folder / "cut", LogSync::write, again);
    EXPECT_EQ(log->replayed().records, whole + 1);
    EXPECT_EQ(again["z"], "last");
  }
}

TEST(Log, AFlippedBitEndsIt) {
  const Folder folder;
  const std::string path = folder / "log";
  Contents none, replayed;
  {
    const auto log = open(path, LogSync::write, none);
    for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(log->append_put(span(key), span("value")));
  }
  const auto size = std::filesystem::file_size(path);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size) - 40);
  file.put('!');
  file.close();
  const auto log = open(path, LogSync::write, replayed);
  EXPECT_EQ(log->replayed().records, 1u);
  EXPECT_EQ(replayed, (Contents{{"a", "value"}}));
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
  const auto refused = Log::open(path, other, LogSync::write, into(none));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::corrupt);
  EXPECT_NE(refused.error().message.find(path), std::string::npos);
  const auto nowhere = Log::open(folder / "no/such/folder", owner, LogSync::write, into(none));
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code, ErrorCode::unavailable);
}

// ---- A process that is killed ----------------------------------------------------------------------
constexpr std::uint64_t keys = 20;

TestRun::Shape logged(const char* protocol, const std::string& path, const char* sync) {
  TestRun::Shape shape{.protocol = protocol, .config = shape_of(2, 1, keys, 64)};
  shape.options = {{"pilaf.log", path}, {"pilaf.log-sync", sync}};
  return shape;
}

// What the child tells: a PUT (or, value 0, a DELETE) that was acknowledged; what is logged for certain.
struct Note {
  std::uint64_t key = 0, value = 0, logged = 0;
};

coro::Task<void> put_for_ever(TestRun* run, std::size_t w, int pipe) {
  Hand hand(*run, w);
  for (std::uint64_t i = 1;; ++i) {
    const std::uint64_t key = (i % (keys / 2)) * 2 + w;  // each client has keys of its own
    Note note{.key = key, .value = i % 9 == 8 ? 0 : 1'000 + i};
    const kv::OpResult done =
        note.value == 0 ? co_await hand.remove(key) : co_await hand.put(key, note.value);
    if (done.status != OpStatus::ok && done.status != OpStatus::not_found) _exit(3);
    for (fabric::NodeId node = 0; node < 2; ++node)
      note.logged += run->store().local(node).servers[0]->log->acknowledged();
    if (write(pipe, &note, sizeof note) != sizeof note) _exit(4);
  }
}

[[noreturn]] void serve_until_killed(const TestRun::Shape& shape, int pipe) {
  TestRun run(make_fabric("shm", 2, 1), shape);
  for (std::size_t w = 0; w < run.workers(); ++w)
    run.start(w, [&run, w, pipe] { return put_for_ever(&run, w, pipe); });
  static_cast<void>(run.run());
  _exit(5);
}

struct Killed {
  std::map<std::uint64_t, std::uint64_t> acknowledged;  // by key, the last value; 0: deleted
  std::uint64_t logged = 0;                             // records that were certainly written
  std::uint64_t notes = 0;
};

// Runs the store in a process of its own and kills it by SIGKILL after so many acknowledged changes.
Killed run_and_kill(const TestRun::Shape& shape, std::uint64_t changes) {
  int ends[2];
  LOCH_CHECK(pipe(ends) == 0, "no pipe");
  const pid_t child = fork();
  LOCH_CHECK(child >= 0, "no child");
  if (child == 0) {
    close(ends[0]);
    serve_until_killed(shape, ends[1]);
  }
  close(ends[1]);
  Killed killed;
  Note note;
  bool is_killed = false;
  // What was on its way when the kill came counts: it had been acknowledged.
  while (read(ends[0], &note, sizeof note) == sizeof note) {
    killed.acknowledged[note.key] = note.value;
    killed.logged = std::max(killed.logged, note.logged);
    if (++killed.notes >= changes && !is_killed) {
      EXPECT_EQ(kill(child, SIGKILL), 0);
      is_killed = true;
    }
  }
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "status " << status;
  return killed;
}

coro::Task<void> read_all(TestRun* run, std::map<std::uint64_t, std::uint64_t>* out) {
  Hand hand(*run, 0);
  for (std::uint64_t key = 0; key < keys; ++key) {
    const kv::OpResult got = co_await hand.get(key);
    EXPECT_TRUE(got.status == OpStatus::ok || got.status == OpStatus::not_found);
    EXPECT_TRUE(got.status == OpStatus::not_found || hand.is_whole);
    (*out)[key] = got.status == OpStatus::ok ? hand.seen : 0;
  }
}

std::map<std::uint64_t, std::uint64_t> restart_and_read(const TestRun::Shape& shape, double* replayed) {
  TestRun run(make_fabric("shm", 2, 1), shape);
  *replayed = run.counter("log_replayed");
  std::map<std::uint64_t, std::uint64_t> found;
  run.start(0, [&] { return read_all(&run, &found); });
  EXPECT_EQ(run.run(), fabric::RunEnd::finished);
  return found;
}

// A client has one operation outstanding, so that after the last acknowledged change of a key at most one
// more can have been carried out: its client's next one.
void expect_held(const Killed& killed, const std::map<std::uint64_t, std::uint64_t>& found) {
  std::map<std::uint64_t, std::uint64_t> newest;  // by client: the last value that it was told of
  for (const auto& [key, value] : killed.acknowledged) newest[key % 2] = std::max(newest[key % 2], value);
  for (const auto& [key, value] : killed.acknowledged) {
    const std::uint64_t now = found.at(key);
    const bool is_next_put = now > newest[key % 2] && now <= newest[key % 2] + 2;
    EXPECT_TRUE(now == value || is_next_put || now == 0)
        << "key " << key << ": " << now << ", acknowledged " << value;
  }
  std::uint64_t lost = 0;
  for (const auto& [key, value] : killed.acknowledged) lost += value != 0 && found.at(key) == 0 ? 1 : 0;
  EXPECT_LE(lost, 2u) << "a client may have been deleting one key when it was killed";
}

TEST(KilledProcess, WhatWasAcknowledgedIsThereAfterARestart) {
  for (const char* protocol : {"pilaf", "pilaf-vo"}) {
    for (const char* sync : {"write", "fsync"}) {
      const Folder folder;
      const TestRun::Shape shape = logged(protocol, folder / "log", sync);
      std::uint64_t changes = 0;
      double replayed = 0;
      for (const std::uint64_t more : {150u, 1u, 200u}) {  // killed again and again
        const Killed killed = run_and_kill(shape, more);
        changes += killed.notes;
        expect_held(killed, restart_and_read(shape, &replayed));
        EXPECT_GE(replayed, 0.0);
      }
      // Deletes of absent keys are not logged: some of the changes.
      EXPECT_GT(replayed, static_cast<double>(changes) * 0.8);
    }
  }
}

// async: a reply says nothing of the log; what the log says that it has, it has.
TEST(KilledProcess, AsyncHoldsWhatTheLogAcknowledged) {
  const Folder folder;
  const TestRun::Shape shape = logged("pilaf", folder / "log", "async");
  const Killed killed = run_and_kill(shape, 500);
  double replayed = 0;
  static_cast<void>(restart_and_read(shape, &replayed));
  EXPECT_GT(killed.logged, 0u);
  EXPECT_GE(replayed, static_cast<double>(killed.logged));
}

}  // namespace
}  // namespace loch::pilaf::testing
