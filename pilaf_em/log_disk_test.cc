// Tests the log on a simulated disk: power failures at every call in every mode, with writes torn, lost and
// reordered; failing syncs, a full disk, flipped bits. Known-bad variants of the log have to be found by
// these tests.
//
// The test keeps the bytes of every appended record. It therefore knows without the log's parser what a
// recovery has to return: the records before the first damaged byte, and the number of intact records behind
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/probe.h"
#include "pilaf_em/log.h"
#include "pilaf_em/lying_disk.h"

namespace loch::pilaf::testing {
namespace {

const LogOwner owner{.node = 1, .server = 2, .nodes = 3, .servers = 4, .key_size = 5, .seed = 6};
const std::string path = "log";

struct Operation {
  std::string key, value;
  bool is_put = true;
  friend bool operator==(const Operation&, const Operation&) = default;
};

LogBytes span(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
std::string text(LogBytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

LogVisitor into(std::vector<Operation>& out) {
  return {.put =
              [&](LogBytes key, LogBytes value) {
                out.push_back({text(key), text(value), true});
                return Result<>();
              },
          .remove =
              [&](LogBytes key) {
                out.push_back({text(key), {}, false});
                return Result<>();
              }};
}

// A record appended to a log: its operation, its bytes and its position.
struct Given {
  Operation operation;
  std::uint64_t begin = 0;
  std::vector<std::byte> bytes;
  [[nodiscard]] std::uint64_t end() const { return begin + bytes.size(); }
  [[nodiscard]] bool is_in(const std::vector<std::byte>& file) const {
    return file.size() >= end() &&
           std::equal(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(begin));
  }
};

enum class Mode : std::uint8_t { async, write, fsync, mixed };
enum class Variant : std::uint8_t {
  as_built,
  never_syncs,     // known-bad: fdatasync does nothing
  hears_no_error,  // known-bad: continues after a failed write or sync
  always_repairs,  // known-bad: cuts off intact records behind a damaged one although not told to
};

// A machine with a disk and a log over several incarnations of its process. `findings` lists what a recovery
// did not return although the log had promised it.
class Machine {
 public:
  Machine(std::uint64_t seed, Mode mode, Variant variant = Variant::as_built)
      : disk_(seed), rng_(seed, "machine"), mode_(mode), variant_(variant) {}

  // One incarnation of the process: recovers the log and appends records, until a fault of `plan` or the
  // given number of operations.
  void live(LyingDisk::Plan plan, std::uint64_t operations) {
    plan.ignores_sync = variant_ == Variant::never_syncs;
    plan.hides_failures = variant_ == Variant::hears_no_error;
    live_until_it_ends(plan, operations);
    // After a failed sync, unwritten data may be in the page cache only, where it may be dropped at any time.
    // Until a recovery in mode fsync has rewritten it, only data of successful syncs is promised.
    if (plan.sync_fails_at == 0 || disk_.plan.sync_fails_at != 0) return;
    has_failed_ = true;
    outlives_kill_ = outlives_power_;
  }
  void kill() { disk_.kill(); }
  // Makes the power fail, unless a planned fault already did.
  void fail_power() {
    disk_.restart();
    outlives_kill_ = outlives_power_;
  }
  // Recovers the log on a healthy disk; a promised record that is missing is a finding.
  void check() {
    disk_.plan = {};
    const auto log = recover(mode_ == Mode::mixed ? LogSync::fsync : static_cast<LogSync>(mode_));
    if (log == nullptr) say("cannot be recovered on a disk that is well");
  }

  [[nodiscard]] LyingDisk& disk() { return disk_; }
  [[nodiscard]] const std::vector<std::string>& findings() const { return findings_; }
  [[nodiscard]] const std::vector<Given>& given() const { return given_; }
  [[nodiscard]] std::uint64_t refusals() const { return refusals_; }

 private:
  void say(std::string what) { findings_.push_back(std::move(what)); }

  void live_until_it_ends(const LyingDisk::Plan& plan, std::uint64_t operations) {
    disk_.plan = plan;
    const LogSync sync =
        mode_ == Mode::mixed ? static_cast<LogSync>(rng_.below(3)) : static_cast<LogSync>(mode_);
    const auto log = recover(sync);
    if (log == nullptr) return;
    for (std::uint64_t i = 0; i < operations && !disk_.is_off(); ++i) append(*log, sync);
    // In mode async, a record is promised to survive the process's death only once it is acknowledged.
    if (sync == LogSync::async) {
      if (rng_.below(2) == 0) static_cast<void>(log->flush());
      promise_after_kill(replayed_ + log->acknowledged());
    }
    if (log->is_open() && disk_.is_off() && sync != LogSync::async)
      say("power failed and an append was fine");
  }

  struct Expected {
    std::uint64_t whole = 0;   // number of intact records before the first damaged one
    std::uint64_t intact = 0;  // number of intact records after the first damaged one
    std::uint64_t end = log_header_bytes;
  };
  [[nodiscard]] Expected expected() {
    const std::vector<std::byte>& file = disk_.contents(path);
    Expected out;
    // Without an intact header the log has no records, since the header is synced before any append.
    const std::vector<std::byte> header = log_header(owner);
    if (file.size() < header.size() || !std::equal(header.begin(), header.end(), file.begin())) return out;
    while (out.whole < given_.size() && given_[out.whole].is_in(file)) out.end = given_[out.whole++].end();
    for (std::uint64_t i = out.whole; i < given_.size(); ++i) out.intact += given_[i].is_in(file) ? 1 : 0;
    return out;
  }

  // Opens the log and checks its recovery. Null if the disk failed during the recovery; any other failure is
  // a finding.
  std::unique_ptr<Log> recover(LogSync sync) {
    const Expected right = expected();
    const std::uint64_t size = disk_.contents(path).size();
    std::vector<Operation> replayed;
    Log::Options options{.sync = sync, .repairs = variant_ == Variant::always_repairs, .has_thread = false};
    auto log = Log::open(disk_, path, owner, options, into(replayed));
    if (!log && log.error().code == ErrorCode::invalid_argument) {
      ++refusals_;
      expect_refusal(log.error().message, right, sync);
      replayed.clear();
      options.repairs = true;
      log = Log::open(disk_, path, owner, options, into(replayed));
    } else if (right.intact > 0 && log) {
      say("a damaged middle was cut without being asked");
    }
    if (!log) return nullptr;
    const Recovered& got = (*log)->recovered();
    if (got.records != right.whole || replayed.size() != right.whole)
      say(std::to_string(got.records) + " records were recovered of " + std::to_string(right.whole));
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(replayed.size(), given_.size()); ++i) {
      if (replayed[i] != given_[i].operation) say("record " + std::to_string(i) + " is another");
    }
    if (got.intact_dropped != right.intact) say("dropped intact records were miscounted");
    if (got.bytes_dropped != size - std::min(size, right.end) && size > log_header_bytes)
      say("dropped bytes were miscounted");
    if ((got.bytes_dropped > 0) != !(*log)->notes().empty()) say("what was dropped was not said");
    if (right.whole < outlives_kill_)
      say(std::to_string(outlives_kill_) + " records were promised, " + std::to_string(right.whole) +
          " are there");
    given_.resize(std::min<std::uint64_t>(given_.size(), right.whole));
    replayed_ = right.whole;
    has_failed_ = has_failed_ && sync != LogSync::fsync;
    outlives_kill_ = std::min(outlives_kill_, replayed_);
    promise_after_kill(replayed_);
    // Recovered records are served to clients, so once recovered they must not vanish.
    outlives_power_ = sync == LogSync::fsync ? replayed_ : std::min(outlives_power_, replayed_);
    return std::move(*log);
  }

  void promise_after_kill(std::uint64_t records) {
    if (!has_failed_) outlives_kill_ = std::max(outlives_kill_, records);
  }

  void expect_refusal(const std::string& message, const Expected& right, LogSync sync) {
    const std::string at = "damaged at byte " + std::to_string(right.end) + ", in record " +
                           std::to_string(right.whole + 1) + ": " + std::to_string(right.intact) +
                           " intact records lie behind";
    if (right.intact == 0) say("a torn tail was refused: " + message);
    if (message.find(at) == std::string::npos ||
        message.find("--pilaf.log-repair true") == std::string::npos ||
        !message.starts_with("pilaf.log: log: ") || message.find('\n') != std::string::npos)
      say("a refusal does not say where: " + message);
    // In mode fsync a log has at most one record that is not synced. If it was always in this mode, a crash
    // therefore cannot leave intact records behind a damaged one.
    if (sync == LogSync::fsync && mode_ == Mode::fsync) say("a crash left a damaged middle");
  }

  void append(Log& log, LogSync sync) {
    Operation operation{
        .key = "key" + std::to_string(rng_.below(5)), .value = {}, .is_put = rng_.below(5) != 0};
    // Values of different sizes, some larger than a sector; a number makes each value unique.
    const std::uint64_t filling = rng_.below(4) == 0 ? rng_.below(3000) : rng_.below(60);
    if (operation.is_put) operation.value = std::to_string(++values_) + std::string(filling, 'v');
    Given given{operation, given_.empty() ? log_header_bytes : given_.back().end(), {}};
    add_record(given.bytes,
               {.is_put = operation.is_put,
                .follows_synced = sync == LogSync::fsync,
                .number = given_.size() + 1,
                .key = span(given.operation.key),
                .value = span(given.operation.value)},
               given.begin, log_salt(owner));
    const bool was_open = log.is_open();
    const std::uint64_t before = disk_.calls();
    const bool is_fine = operation.is_put ? log.append_put(span(operation.key), span(operation.value))
                                          : log.append_remove(span(operation.key));
    if (!was_open) {
      // A closed log must neither append nor retry a sync.
      if (is_fine || disk_.calls() != before) say("a closed log goes on");
      return;
    }
    given_.push_back(std::move(given));
    if (is_fine && sync != LogSync::async) promise_after_kill(given_.size());
    if (is_fine && sync == LogSync::fsync) outlives_power_ = given_.size();
    if (!is_fine && log.is_open()) say("an append failed and the log is open");
    if (sync == LogSync::async && rng_.below(3) == 0) {
      static_cast<void>(log.flush());
      promise_after_kill(replayed_ + log.acknowledged());
    }
  }

  LyingDisk disk_;
  Rng rng_;
  Mode mode_;
  Variant variant_;
  std::vector<Given> given_;
  std::uint64_t values_ = 0, replayed_ = 0, refusals_ = 0;
  // Number of records of given_ that are promised to survive a kill of the process, and number of those that
  // are promised to survive a power failure.
  std::uint64_t outlives_kill_ = 0, outlives_power_ = 0;
  bool has_failed_ = false;  // true: a sync failed, so its data may be in the page cache only
  std::vector<std::string> findings_;
};

constexpr Mode all_modes[] = {Mode::async, Mode::write, Mode::fsync, Mode::mixed};
constexpr std::uint64_t each_incarnation = 9;  // operations in one incarnation

// Number of disk calls in an incarnation without faults.
std::uint64_t calls_of(std::uint64_t seed, Mode mode) {
  Machine machine(seed, mode);
  machine.live({}, each_incarnation);
  return machine.disk().calls();
}

struct Tally {
  std::uint64_t machines = 0, with_findings = 0, refusals = 0;
  std::string first;
};

void count(const Machine& machine, Tally& tally, std::string_view what) {
  ++tally.machines;
  tally.refusals += machine.refusals();
  if (machine.findings().empty()) return;
  ++tally.with_findings;
  if (tally.first.empty()) tally.first = std::string(what) + ": " + machine.findings().front();
}

// Lets the power fail at each disk call of the process's first incarnation, again at some call of the second,
// which begins with a recovery, and once more at the end.
Tally fail_power_everywhere(Mode mode, std::uint64_t seeds, Variant variant) {
  Tally tally;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::uint64_t calls = calls_of(seed, mode);
    for (std::uint64_t at = 1; at <= calls; ++at) {
      Machine machine(seed, mode, variant);
      Rng rng(seed, "plan", at);
      machine.live({.power_fails_at = at, .writes_are_short = rng.below(2) == 0}, each_incarnation);
      machine.fail_power();
      machine.live({.power_fails_at = machine.disk().calls() + 1 + rng.below(12)}, each_incarnation);
      machine.fail_power();
      machine.check();
      machine.fail_power();
      machine.check();
      count(machine, tally, "seed " + std::to_string(seed) + ", call " + std::to_string(at));
    }
  }
  return tally;
}

// Lets a write or a sync fail at each disk call of an incarnation. Then the process continues, is killed, or
// the power fails; another process recovers the log, possibly from page-cache data that the disk does not
// have; and the power fails.
Tally fail_calls_everywhere(Mode mode, std::uint64_t seeds, Variant variant) {
  Tally tally;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::uint64_t calls = calls_of(seed, mode);
    for (std::uint64_t at = 1; at <= calls; ++at) {
      Machine machine(seed, mode, variant);
      Rng rng(seed, "plan", at);
      const bool is_full = rng.below(2) == 0;
      machine.live({.sync_fails_at = is_full ? 0 : at,
                    .full_at = is_full ? at : 0,
                    .writes_are_short = rng.below(2) == 0},
                   each_incarnation);
      if (rng.below(2) == 0)
        machine.kill();
      else
        machine.fail_power();
      machine.live({.sync_fails_at = rng.below(3) == 0 ? machine.disk().calls() + 1 + rng.below(9) : 0},
                   each_incarnation);
      machine.kill();
      machine.check();
      machine.fail_power();
      machine.check();
      count(machine, tally, "seed " + std::to_string(seed) + ", call " + std::to_string(at));
    }
  }
  return tally;
}

TEST(LyingDisk, PowerFailsAtEveryCallAndNothingPromisedIsLost) {
  for (const Mode mode : all_modes) {
    const Tally tally = fail_power_everywhere(mode, 200, Variant::as_built);
    EXPECT_EQ(tally.with_findings, 0u) << "mode " << static_cast<int>(mode) << ", " << tally.first;
    EXPECT_GT(tally.machines, 1'000u);
    // In modes other than fsync a power failure may leave a log with missing parts, which a recovery refuses.
    EXPECT_EQ(tally.refusals > 0, mode != Mode::fsync) << "mode " << static_cast<int>(mode);
  }
}

TEST(LyingDisk, WritesAndSyncsFailAtEveryCallAndNothingPromisedIsLost) {
  for (const Mode mode : all_modes) {
    const Tally tally = fail_calls_everywhere(mode, 200, Variant::as_built);
    EXPECT_EQ(tally.with_findings, 0u) << "mode " << static_cast<int>(mode) << ", " << tally.first;
    EXPECT_GT(tally.machines, 1'000u);
  }
}

TEST(LyingDisk, FindsALogThatNeverSyncs) {
  EXPECT_GT(fail_power_everywhere(Mode::fsync, 5, Variant::never_syncs).with_findings, 0u);
  EXPECT_GT(fail_power_everywhere(Mode::mixed, 5, Variant::never_syncs).with_findings, 0u);
}

TEST(LyingDisk, FindsALogThatGoesOnAfterAFailure) {
  for (const Mode mode : all_modes)
    EXPECT_GT(fail_calls_everywhere(mode, 5, Variant::hears_no_error).with_findings, 0u)
        << "mode " << static_cast<int>(mode);
}

TEST(LyingDisk, FindsALogThatCutsADamagedMiddle) {
  for (const Mode mode : {Mode::async, Mode::write, Mode::mixed})
    EXPECT_GT(fail_power_everywhere(mode, 20, Variant::always_repairs).with_findings, 0u)
        << "mode " << static_cast<int>(mode);
}

// ---- Flipped bits ------------------------------------------------------------------------------------
struct Written {
  std::vector<std::byte> file;
  std::vector<std::uint64_t> ends;  // file offsets of the end of the header and of each record
  std::vector<Operation> operations;
};

Written write_some(std::uint64_t records) {
  LyingDisk disk(1);
  Written out;
  std::vector<Operation> none;
  const auto log = Log::open(disk, path, owner,
                             {.sync = LogSync::fsync, .repairs = false, .has_thread = false}, into(none));
  LOCH_CHECK(log.has_value(), "{}", log.error().message);
  out.ends.push_back(disk.contents(path).size());
  for (std::uint64_t i = 0; i < records; ++i) {
    out.operations.push_back({"k" + std::to_string(i), i == 2 ? "" : std::string(i * 7, 'v'), i != 2});
    const Operation& made = out.operations.back();
    const bool is_fine = made.is_put ? (*log)->append_put(span(made.key), span(made.value))
                                     : (*log)->append_remove(span(made.key));
    LOCH_CHECK(is_fine, "a disk that is well");
    out.ends.push_back(disk.contents(path).size());
  }
  out.file = disk.contents(path);
  return out;
}

struct Opened {
  Result<std::unique_ptr<Log>> log;
  std::vector<Operation> replayed;
};
Opened open_again(LyingDisk& disk, bool repairs) {
  std::vector<Operation> replayed;
  auto log = Log::open(disk, path, owner, {.sync = LogSync::write, .repairs = repairs, .has_thread = false},
                       into(replayed));
  return {std::move(log), std::move(replayed)};
}

// Flips every bit of a log in turn: a flip in the header or a record that is not the last is refused; one in
// the last record looks like a torn tail.
TEST(FlippedBit, IsRefusedUnlessNothingIsBehindIt) {
  const Written written = write_some(6);
  for (std::uint64_t bit = 0; bit < written.file.size() * 8; ++bit) {
    SCOPED_TRACE("bit " + std::to_string(bit));
    std::vector<std::byte> file = written.file;
    file[bit / 8] ^= std::byte{1} << bit % 8;
    // Number of the record that contains the flipped bit; 0: the header.
    const auto record = static_cast<std::uint64_t>(
        std::upper_bound(written.ends.begin(), written.ends.end(), bit / 8) - written.ends.begin());
    const std::uint64_t before = record == 0 ? 0 : record - 1, behind = 6 - record;
    LyingDisk disk(1);
    disk.set_contents(path, file);
    const Opened opened = open_again(disk, false);
    if (record == 6) {
      ASSERT_TRUE(opened.log.has_value());
      EXPECT_EQ((*opened.log)->recovered().records, 5u);
      EXPECT_EQ((*opened.log)->recovered().bytes_dropped, written.ends[6] - written.ends[5]);
      EXPECT_THAT((*opened.log)->notes(), ::testing::SizeIs(1));
      continue;
    }
    ASSERT_FALSE(opened.log.has_value());
    EXPECT_EQ(opened.log.error().code, ErrorCode::invalid_argument);
    const std::string at = "damaged at byte " + std::to_string(record == 0 ? 0 : written.ends[before]);
    EXPECT_THAT(opened.log.error().message, ::testing::HasSubstr(at));
    EXPECT_THAT(opened.log.error().message,
                ::testing::HasSubstr(std::to_string(behind) + " intact records lie behind"));
    EXPECT_EQ(disk.contents(path), file) << "a refusal changes nothing";
    EXPECT_EQ(disk.calls(), 0u);

    const Opened fixed = open_again(disk, true);
    ASSERT_TRUE(fixed.log.has_value());
    const Recovered& got = (*fixed.log)->recovered();
    // A damaged header is rewritten from the deployment's settings, so no record is lost.
    const std::uint64_t kept = record == 0 ? 6 : before;
    EXPECT_EQ(got.records, kept);
    EXPECT_EQ(got.has_new_header, record == 0);
    EXPECT_EQ(got.intact_dropped, record == 0 ? 0 : behind);
    EXPECT_EQ(got.bytes_dropped, written.ends[6] - written.ends[kept]);
    EXPECT_TRUE(std::equal(fixed.replayed.begin(), fixed.replayed.end(), written.operations.begin()));
    ASSERT_THAT((*fixed.log)->notes(), ::testing::SizeIs(1));
    EXPECT_THAT((*fixed.log)->notes()[0], ::testing::HasSubstr("pilaf.log-repair"));
    EXPECT_THAT(disk.contents(path), ::testing::SizeIs(written.ends[kept]));
  }
}

// Overwrites a random part of the log: recovery returns the records before that part, and counts the intact
// records behind it.
TEST(Damage, AnywhereOfAnyLengthIsCounted) {
  const Written written = write_some(12);
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    std::vector<std::byte> file = written.file;
    const std::uint64_t begin = written.ends[0] + rng.below(file.size() - written.ends[0]);
    const std::uint64_t length = 1 + rng.below(std::min<std::uint64_t>(file.size() - begin, 150));
    // The overwriting bytes: zeros, random bytes, or a part of the log itself, which may contain whole
    // records.
    const std::uint64_t kind = rng.below(3), from = rng.below(file.size() - length + 1);
    for (std::uint64_t i = 0; i < length; ++i)
      file[begin + i] = kind == 0   ? std::byte{0}
                        : kind == 1 ? static_cast<std::byte>(rng.below(256))
                                    : written.file[from + i];
    std::uint64_t whole = 0, intact = 0;
    for (std::uint64_t i = 0; i < 12; ++i) {
      const bool is_same = std::equal(file.begin() + static_cast<std::ptrdiff_t>(written.ends[i]),
                                      file.begin() + static_cast<std::ptrdiff_t>(written.ends[i + 1]),
                                      written.file.begin() + static_cast<std::ptrdiff_t>(written.ends[i]));
      if (is_same && whole == i)
        ++whole;
      else if (is_same)
        ++intact;
    }
    LyingDisk disk(1);
    disk.set_contents(path, file);
    const Opened opened = open_again(disk, false);
    ASSERT_EQ(opened.log.has_value(), intact == 0);
    if (intact == 0) {
      EXPECT_EQ((*opened.log)->recovered().records, whole);
      continue;
    }
    EXPECT_THAT(
        opened.log.error().message,
        ::testing::HasSubstr("damaged at byte " + std::to_string(written.ends[whole]) + ", in record " +
                             std::to_string(whole + 1) + ": " + std::to_string(intact) + " intact"));
  }
}

// A value may contain the bytes of another log's records: they must not be taken for records of this log.
TEST(Damage, RecordsInAValueAreNoRecords) {
  const Written inner = write_some(6);
  LyingDisk disk(1);
  std::vector<Operation> none;
  std::uint64_t begin = 0;
  {
    const Opened opened = open_again(disk, false);
    ASSERT_TRUE(opened.log.has_value());
    ASSERT_TRUE((*opened.log)->append_put(span("key"), span("value")));
    begin = disk.contents(path).size();
    ASSERT_TRUE((*opened.log)->append_put(span("key"), inner.file));
  }
  std::vector<std::byte> file = disk.contents(path);
  file.resize(file.size() - 1);
  disk.set_contents(path, file);
  const Opened torn = open_again(disk, false);
  ASSERT_TRUE(torn.log.has_value()) << torn.log.error().message;
  EXPECT_EQ((*torn.log)->recovered().records, 1u);
  EXPECT_EQ((*torn.log)->recovered().dropped_at, begin);
}

// An intact record with the right offset but the wrong number, such as one left from an earlier incarnation,
// is not replayed.
TEST(Damage, RecordsOutOfTheirOrderAreRefused) {
  const Written written = write_some(6);
  std::vector<std::byte> file(written.file.begin(),
                              written.file.begin() + static_cast<std::ptrdiff_t>(written.ends[1]));
  // A record numbered 4 that lies where record 2 is expected, as in an earlier log whose first three records
  // were shorter.
  std::vector<std::byte> record;
  add_record(record, {.is_put = true, .number = 4, .key = span("k"), .value = span("v")}, file.size(),
             log_salt(owner));
  file.insert(file.end(), record.begin(), record.end());
  LyingDisk disk(1);
  disk.set_contents(path, file);
  const Opened opened = open_again(disk, false);
  ASSERT_FALSE(opened.log.has_value());
  EXPECT_THAT(opened.log.error().message, ::testing::HasSubstr("in record 2: 1 intact records lie behind"));
}

TEST(Disk, ThatCannotBeReadCutsNothing) {
  const Written written = write_some(6);
  LyingDisk disk(1);
  disk.set_contents(path, written.file);
  disk.plan.reads_fail = true;
  const Opened opened = open_again(disk, true);
  ASSERT_FALSE(opened.log.has_value());
  EXPECT_EQ(opened.log.error().code, ErrorCode::unavailable);
  EXPECT_EQ(disk.contents(path), written.file);
}

// An error from the visitor, such as a full table, ends the recovery before anything is cut from the file.
TEST(Replay, ThatIsRefusedChangesNothing) {
  Written written = write_some(6);
  written.file.resize(written.file.size() - 3);
  LyingDisk disk(1);
  disk.set_contents(path, written.file);
  const LogVisitor refusing{
      .put = [](LogBytes, LogBytes) -> Result<> { return fail(ErrorCode::exhausted, "full"); },
      .remove = [](LogBytes) { return Result<>(); }};
  const auto refused = Log::open(disk, path, owner, {.sync = LogSync::fsync, .repairs = true}, refusing);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message, "pilaf.log: log: full");
  EXPECT_EQ(disk.contents(path), written.file);
  EXPECT_EQ(disk.calls(), 0u);
}

// Checks that the tests of this file have reached every probe (counted rare branch) of the log.
TEST(Probes, EachIsReached) {
  ProbeCounts counts;
  {
    const ProbeScope scope(counts);
    static_cast<void>(fail_power_everywhere(Mode::mixed, 10, Variant::as_built));
    static_cast<void>(fail_calls_everywhere(Mode::mixed, 10, Variant::as_built));
    std::vector<std::byte> file = write_some(3).file;
    file[3] ^= std::byte{4};
    LyingDisk disk(1);
    disk.set_contents(path, file);
    EXPECT_FALSE(open_again(disk, false).log.has_value());
  }
  std::uint64_t of_the_log = 0;
  for (std::size_t i = 0; i < probe_sites().size(); ++i) {
    if (!std::string_view(probe_sites()[i].name).starts_with("pilaf-log.")) continue;
    ++of_the_log;
    EXPECT_GT(counts[i], 0u) << probe_sites()[i].name;
  }
  EXPECT_EQ(of_the_log, 5u);
}

}  // namespace
}  // namespace loch::pilaf::testing
