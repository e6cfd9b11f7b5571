// Tests a store with its log: what a killed process leaves behind, which status clients get when the disk
// fails, and that no change can be read before it is logged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pilaf_em/lying_disk.h"
#include "pilaf_em/test_folder.h"
#include "pilaf_em/test_run.h"

namespace loch::pilaf::testing {
namespace {

using kv::Effect;
using kv::OpStatus;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t keys = 20;
constexpr std::uint64_t absent = ~std::uint64_t{0};

// ---- A process that is killed ----------------------------------------------------------------------
TestRun::Shape logged(const char* protocol, const std::string& path, const char* sync) {
  TestRun::Shape shape{.protocol = protocol, .config = shape_of(2, 1, keys, 64)};
  shape.options = {{"pilaf.log", path}, {"pilaf.log-sync", sync}};
  return shape;
}

// A message from the child process: an operation has begun, or was acknowledged.
struct Note {
  // value: the number of a PUT's value, or `absent` for a DELETE
  std::uint64_t client = 0, key = 0, value = 0;
  bool is_done = false, has_changed = false;
  std::uint64_t logged = 0;  // number of records that were certainly logged when this note was sent
};

void tell(int pipe, const Note& note) {
  if (write(pipe, &note, sizeof note) != sizeof note) _exit(4);
}

// PUTs and DELETEs keys until the process is killed; value numbers are unique and above `first`.
coro::Task<void> put_for_ever(TestRun* run, std::size_t w, int pipe, std::uint64_t first) {
  Hand hand = run->hand(w);
  for (std::uint64_t i = 1;; ++i) {
    const std::uint64_t key = (i % (keys / 2)) * 2 + w;  // only this client writes these keys
    Note note{.client = w, .key = key, .value = i % 9 == 8 ? absent : first + i};
    tell(pipe, note);
    const kv::OpResult done =
        note.value == absent ? co_await hand.remove(key) : co_await hand.put(key, note.value);
    if (done.status != OpStatus::ok && done.status != OpStatus::not_found) _exit(3);
    note.is_done = true;
    note.has_changed = done.status == OpStatus::ok;
    for (fabric::NodeId node = 0; node < 2; ++node)
      note.logged += run->store().local(node).servers[0]->log->acknowledged();
    tell(pipe, note);
  }
}

[[noreturn]] void serve_until_killed(const TestRun::Shape& shape, int pipe, std::uint64_t first) {
  TestRun run(make_fabric("shm", 2, 1), shape);
  for (std::size_t w = 0; w < run.workers(); ++w)
    run.start(w, [&run, w, pipe, first] { return put_for_ever(&run, w, pipe, first); });
  static_cast<void>(run.run());
  _exit(5);
}

struct Change {
  std::uint64_t key = 0, value = 0;
};
struct Killed {
  std::vector<std::vector<Change>> acknowledged{2};  // for each client, its acknowledged changes in order
  // For each client, the operation that has begun and is not acknowledged.
  std::vector<std::optional<Change>> under_way{2};
  std::uint64_t logged = 0;   // number of records that were certainly written
  std::uint64_t changes = 0;  // number of acknowledged changes
};

// Runs the store in a child process and kills it with SIGKILL after `operations` acknowledged operations.
Killed run_and_kill(const TestRun::Shape& shape, std::uint64_t operations, std::uint64_t first) {
  int ends[2];
  LOCH_CHECK(pipe(ends) == 0, "no pipe");
  const pid_t child = fork();
  LOCH_CHECK(child >= 0, "no child");
  if (child == 0) {
    close(ends[0]);
    serve_until_killed(shape, ends[1], first);
  }
  close(ends[1]);
  Killed killed;
  Note note;
  bool is_killed = false;
  std::uint64_t done = 0;
  // Reads to the pipe's end: messages that the child wrote before it was killed count even if they are read
  // after the kill.
  while (read(ends[0], &note, sizeof note) == sizeof note) {
    killed.under_way.at(note.client) =
        note.is_done ? std::nullopt : std::optional(Change{note.key, note.value});
    if (!note.is_done) continue;
    if (note.has_changed) {
      killed.acknowledged.at(note.client).push_back({note.key, note.value});
      ++killed.changes;
    }
    killed.logged = std::max(killed.logged, note.logged);
    if (++done >= operations && !is_killed) {
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

// The value of each key, by the value's number; absent keys have no element.
using Contents = std::map<std::uint64_t, std::uint64_t>;

coro::Task<void> read_all(TestRun* run, Contents* out) {
  Hand hand = run->hand(0);
  for (std::uint64_t key = 0; key < keys; ++key) {
    const kv::OpResult got = co_await hand.get(key);
    EXPECT_TRUE(got.status == OpStatus::ok || got.status == OpStatus::not_found);
    EXPECT_TRUE(got.status == OpStatus::not_found || hand.is_whole);
    (*out)[key] = got.status == OpStatus::ok ? hand.seen : absent;
  }
}

struct Restarted {
  Contents found;
  std::uint64_t replayed = 0;
  std::map<std::uint64_t, std::uint32_t> shards;  // key -> shard
};

Restarted restart_and_read(const TestRun::Shape& shape) {
  TestRun run(make_fabric("shm", 2, 1), shape);
  Restarted out;
  out.replayed = static_cast<std::uint64_t>(run.counter("log_replayed"));
  for (std::uint64_t key = 0; key < keys; ++key) {
    std::vector<std::byte> bytes(run.config().key_size);
    PatternData::write_key(key, bytes.data(), run.config().key_size);
    out.shards[key] = run.store().settings().shard_of({bytes.data(), run.config().key_size});
  }
  run.start(0, [&] { return read_all(&run, &out.found); });
  EXPECT_EQ(run.run(), fabric::RunEnd::finished);
  return out;
}

// Checks a restart: every acknowledged change is present, each operation that was under way is present as a
// whole or not at all, and the log has exactly one record for each change that is present. `before`: content
// and number of records before the killed process began.
void expect_held(const Killed& killed, const Restarted& before, const Restarted& after) {
  Contents expected = before.found;
  for (const auto& of_client : killed.acknowledged)
    for (const Change& change : of_client) expected[change.key] = change.value;
  std::uint64_t records = before.replayed + killed.changes;
  for (const std::optional<Change>& change : killed.under_way) {
    if (!change || after.found.at(change->key) == expected[change->key]) continue;
    // A key without its last acknowledged value must have that of the operation that was under way, which is
    // then in the log.
    expected[change->key] = change->value;
    ++records;
  }
  EXPECT_EQ(after.found, expected);
  EXPECT_EQ(after.replayed, records);
}

TEST(KilledProcess, WhatWasAcknowledgedIsThereAfterARestart) {
  for (const char* protocol : {"pilaf", "pilaf-vo"}) {
    for (const char* sync : {"write", "fsync"}) {
      SCOPED_TRACE(std::string(protocol) + ", " + sync);
      const Folder folder;
      const TestRun::Shape shape = logged(protocol, folder / "log", sync);
      Restarted before = restart_and_read(shape);
      EXPECT_EQ(before.replayed, 0u);
      std::uint64_t first = 1'000;
      for (const std::uint64_t more : {150u, 1u, 200u}) {  // the process is killed three times in a row
        const Killed killed = run_and_kill(shape, more, first += 1'000'000);
        Restarted after = restart_and_read(shape);
        expect_held(killed, before, after);
        before = std::move(after);
      }
    }
  }
}

// In mode async the log may lack acknowledged operations after the kill, but not the records that the log
// itself counts as acknowledged. It holds a prefix of each server's changes, and so of each client's changes
// at that server.
TEST(KilledProcess, AsyncHoldsABeginningThatTheLogAcknowledged) {
  const Folder folder;
  const TestRun::Shape shape = logged("pilaf", folder / "log", "async");
  const Restarted before = restart_and_read(shape);
  Killed killed = run_and_kill(shape, 500, 1'000);
  const Restarted after = restart_and_read(shape);
  EXPECT_GT(killed.logged, 0u);
  EXPECT_GE(after.replayed, killed.logged);
  std::uint64_t begun = killed.changes;
  for (std::size_t client = 0; client < 2; ++client) {
    if (killed.under_way[client]) {
      killed.acknowledged[client].push_back(*killed.under_way[client]);
      ++begun;
    }
    for (std::uint32_t shard = 0; shard < 2; ++shard) {
      Contents here, now;
      for (std::uint64_t key = client; key < keys; key += 2) {
        if (after.shards.at(key) != shard) continue;
        here[key] = before.found.at(key);
        now[key] = after.found.at(key);
      }
      bool is_a_beginning = here == now;
      for (const Change& change : killed.acknowledged[client]) {
        if (here.contains(change.key)) here[change.key] = change.value;
        is_a_beginning = is_a_beginning || here == now;
      }
      EXPECT_TRUE(is_a_beginning) << "client " << client << ", shard " << shard;
    }
  }
  EXPECT_LE(after.replayed, begun);
}

// ---- A disk that fails -----------------------------------------------------------------------------
TestRun::Shape on_disk(const char* protocol, const char* update, LogDisk* disk) {
  TestRun::Shape shape{.protocol = protocol, .config = shape_of(2, 1, keys, 64)};
  shape.config.server_nodes = 1;
  shape.options = {{"pilaf.log", "log"}, {"pilaf.log-sync", "fsync"}, {"pilaf.update", update}};
  shape.disk = disk;
  return shape;
}

struct Answer {
  OpStatus status = OpStatus::ok;
  Effect effect = Effect::none;
  friend bool operator==(const Answer&, const Answer&) = default;
};
Answer answer(const kv::OpResult& result) { return {result.status, result.effect}; }

coro::Task<void> through_a_failure(TestRun* run, LyingDisk* disk, bool is_full) {
  Hand hand = run->hand(0);
  const Answer refused{OpStatus::error, Effect::none}, in_doubt{OpStatus::error, Effect::unknown};
  const kv::OpResult before = co_await hand.put(1, 1'005);
  EXPECT_EQ(before.status, OpStatus::ok);
  (is_full ? disk->plan.full_at : disk->plan.sync_fails_at) = disk->calls() + 1;
  const kv::OpResult failed = co_await hand.put(1, 1'006);
  EXPECT_EQ(answer(failed), in_doubt);
  const kv::OpResult unchanged = co_await hand.get(1);
  EXPECT_EQ(unchanged.status, OpStatus::ok);
  EXPECT_EQ(hand.seen, 1'005u) << "what is not logged cannot be read";
  // Even when the disk works again, the log stays closed, and no change is accepted.
  disk->plan = {};
  const std::uint64_t calls = disk->calls();
  const kv::OpResult put = co_await hand.put(2, 1'007);
  EXPECT_EQ(answer(put), refused);
  const kv::OpResult removed = co_await hand.remove(3);
  EXPECT_EQ(answer(removed), refused);
  const kv::OpResult inserted = co_await hand.put(keys + 1, 1'008);
  EXPECT_EQ(answer(inserted), refused);
  EXPECT_EQ(disk->calls(), calls);
  for (std::uint64_t key = 2; key < keys; ++key) {
    const kv::OpResult got = co_await hand.get(key);
    EXPECT_EQ(got.status, OpStatus::ok);
    EXPECT_EQ(hand.seen, key) << "as it was preloaded";
  }
  const kv::OpResult missing = co_await hand.get(keys + 1);
  EXPECT_EQ(missing.status, OpStatus::not_found);
}

TEST(FailingDisk, ChangesAreRefusedAndTheResultSaysWhy) {
  for (const char* protocol : {"pilaf", "pilaf-vo"}) {
    for (const char* update : {"in-place", "replace"}) {
      for (const bool is_full : {false, true}) {
        SCOPED_TRACE(std::string(protocol) + ", " + update + (is_full ? ", full" : ", no sync"));
        LyingDisk disk(7);
        const TestRun::Shape shape = on_disk(protocol, update, &disk);
        {
          TestRun run(make_fabric("sim", 2, 1), shape);
          const double room = run.counter("extents_free_bytes");
          run.start(0, [&] { return through_a_failure(&run, &disk, is_full); });
          EXPECT_EQ(run.run(), fabric::RunEnd::finished);
          EXPECT_EQ(run.counter("logs_closed"), 1);
          EXPECT_EQ(run.counter("log_acknowledged"), 1);
          EXPECT_EQ(run.counter("extents_free_bytes"), room) << "of what was not done, nothing stays";
          EXPECT_EQ(run.counter("keys"), keys);
          EXPECT_THAT(
              run.store().notes(),
              ElementsAre(HasSubstr("closed after 1 records: its server's PUTs and DELETEs fail since")));
        }
        disk.restart();
        // After a restart, an operation of unknown outcome may be visible, and a refused one must not be.
        TestRun again(make_fabric("sim", 2, 1), shape);
        Contents found;
        again.start(0, [&] { return read_all(&again, &found); });
        EXPECT_EQ(again.run(), fabric::RunEnd::finished);
        EXPECT_TRUE(found[1] == 1'005 || found[1] == 1'006) << found[1];
        EXPECT_EQ(found[2], 2u);
        EXPECT_EQ(found[3], 3u);
        EXPECT_EQ(again.counter("logs_closed"), 0);
      }
    }
  }
}

// A disk that calls a function at each write and sync of a log.
class WatchedDisk final : public LogDisk {
 public:
  explicit WatchedDisk(LogDisk& under) : under_(under) {}
  std::function<void()> look = [] {};

  Result<std::unique_ptr<LogFile>> open(const std::string& path) override {
    LOCH_ASSIGN(std::unique_ptr<LogFile> file, under_.open(path));
    return std::make_unique<File>(*this, std::move(file));
  }
  Result<> sync_name(const std::string& path) override { return under_.sync_name(path); }

 private:
  class File final : public LogFile {
   public:
    File(WatchedDisk& disk, std::unique_ptr<LogFile> under) : disk_(disk), under_(std::move(under)) {}
    Result<std::uint64_t> size() override { return under_->size(); }
    Result<std::size_t> read(std::uint64_t at, std::span<std::byte> out) override {
      return under_->read(at, out);
    }
    Result<std::size_t> write(std::uint64_t at, std::span<const std::byte> bytes) override {
      disk_.look();
      return under_->write(at, bytes);
    }
    Result<> sync() override {
      disk_.look();
      return under_->sync();
    }
    Result<> truncate(std::uint64_t bytes) override { return under_->truncate(bytes); }

   private:
    WatchedDisk& disk_;
    std::unique_ptr<LogFile> under_;
  };
  LogDisk& under_;
};

// The number of the value that the server's memory holds for key 1.
std::uint64_t stored(TestRun& run) {
  std::vector<std::byte> key(run.config().key_size);
  PatternData::write_key(1, key.data(), run.config().key_size);
  Shard& shard = run.store().shard(0);
  const std::optional<Bucket> found = shard.find(key);
  if (!found) return absent;
  std::uint64_t number = 0;
  std::memcpy(&number, shard.extent(found->value_at), sizeof number);
  return number;
}

coro::Task<void> put_twice_and_remove(TestRun* run) {
  Hand hand = run->hand(0);
  const kv::OpResult first = co_await hand.put(1, 101);
  const kv::OpResult second = co_await hand.put(1, 102);
  const kv::OpResult third = co_await hand.remove(1);
  const kv::OpResult fourth = co_await hand.put(1, 103);
  for (const kv::OpResult& done : {first, second, third, fourth}) EXPECT_EQ(done.status, OpStatus::ok);
}

TEST(Changes, CannotBeReadBeforeTheyAreLogged) {
  for (const char* sync : {"async", "write", "fsync"}) {
    for (const char* update : {"in-place", "replace"}) {
      SCOPED_TRACE(std::string(sync) + ", " + update);
      LyingDisk memory(1);
      WatchedDisk disk(memory);
      TestRun::Shape shape = on_disk("pilaf", update, &disk);
      shape.options["pilaf.log-sync"] = sync;
      TestRun run(make_fabric("sim", 2, 1), shape);
      std::vector<std::uint64_t> seen;
      if (std::string_view(sync) != "async") disk.look = [&] { seen.push_back(stored(run)); };
      run.start(0, [&] { return put_twice_and_remove(&run); });
      EXPECT_EQ(run.run(), fabric::RunEnd::finished);
      EXPECT_EQ(stored(run), 103u);
      if (std::string_view(sync) == "write") EXPECT_THAT(seen, ElementsAre(1, 101, 102, absent));
      if (std::string_view(sync) == "fsync")
        EXPECT_THAT(seen, ElementsAre(1, 1, 101, 101, 102, 102, absent, absent));
      if (std::string_view(sync) == "async") EXPECT_THAT(seen, IsEmpty());
    }
  }
}

// A log with values larger than the deployment allows is refused and left unchanged.
TEST(Replay, OfLongerValuesIsRefused) {
  const Folder folder;
  const TestRun::Shape shape = logged("pilaf", folder / "log", "write");
  {
    PosixDisk disk;
    const LogOwner owner{
        .node = 1, .server = 0, .nodes = 2, .servers = 1, .key_size = 32, .seed = shape.config.seed};
    const LogVisitor nobody;
    const auto log = Log::open(disk, folder / "log.n1.s0", owner, {.sync = LogSync::write}, nobody);
    ASSERT_TRUE(log.has_value());
    const std::vector<std::byte> key(32), value(65);
    ASSERT_TRUE((*log)->append_put(key, value));
  }
  const auto module = make_module("pilaf");
  kv::Options options(module->options());
  for (const auto& [key, value] : shape.options) ASSERT_TRUE(options.set(key, value).has_value());
  const auto fabric = make_fabric("sim", 2, 1);
  const auto store = module->deploy(shape.config, options, "");
  ASSERT_TRUE(store.has_value());
  for (fabric::NodeId node = 0; node < 2; ++node)
    ASSERT_TRUE((*store)->setup_node(*fabric, node).has_value());
  ASSERT_TRUE(fabric->exchange(1'000'000'000).has_value());
  ASSERT_TRUE((*store)->connect(*fabric).has_value());
  const auto refused = (*store)->preload(*fabric, PatternData(keys, 32));
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("log.n1.s0: holds a key of 32 bytes with a value of 65; "
                                                 "expected key-size and value-size to be at least that"));
}

TEST(Options, ARepairNeedsALog) {
  const auto module = make_module("pilaf");
  kv::Options options(module->options());
  ASSERT_TRUE(options.set("pilaf.log-repair", "true").has_value());
  const auto refused = module->deploy(shape_of(2, 1, keys, 64), options, "");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            "pilaf.log-repair: there is no log to cut; expected pilaf.log alongside it");
}

}  // namespace
}  // namespace loch::pilaf::testing
