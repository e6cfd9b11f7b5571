// The state that a Driver keeps for each client worker. Included only by the driver's own sources.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "common/kv/value.h"
#include "workloads/driver.h"

namespace loch::workloads {

// One window slot (place for one operation): a client of the store with its own buffers and its own client
// number.
struct Driver::Slot {
  std::unique_ptr<kv::Client> client;
  std::unique_ptr<OperationLog> log;
  std::uint32_t number = 0;  // identifies this client in the cluster; stored in all values that it writes
  // index among the window slots (places for one operation each) of its client worker
  std::uint32_t index = 0;
  // operations of this window slot (place for one operation), if the load is a script
  std::vector<ScriptedOperation> script;
  std::size_t next = 0;  // index of the script's next operation
  // Time until which the script let the window slot (place for one operation) sleep before the current
  // operation; -1: it did not sleep.
  Nanos slept_until = -1;
  std::vector<std::uint32_t> dealt;  // indices of the trace's operations that this slot issues
  std::uint32_t value_bytes = 0;     // value size of the next PUT of a replayed trace; 0: the size is drawn
  bool is_sweeping = false;
  std::uint64_t sequence = 0;   // number of PUTs and INSERTs so far, written into each value
  std::uint32_t error_run = 0;  // failed operations in a row
  bool had_trouble = false;     // whether an operation ended in error, timeout or "table full"
  bool is_busy = false;
  kv::OpStatus last = kv::OpStatus::ok;  // status of the slot's latest operation
  // true: the current operation counts if it ends in the measurement window; false: it does not count
  bool is_measured = true;
  std::vector<std::byte> key, value;
  const std::byte* key_at = nullptr;  // key of the current operation, in `key` or in the driver's key table
  std::vector<std::uint64_t> batch;   // records of the slot's current multi-get
  std::uint32_t key_size = 0;         // bytes of the current operation's key
  kv::ValueStamp stamp;
  // Names of the current operation's key and value in the history. `key_text` points to the key itself or
  // into `key_hex`.
  std::string_view key_text;
  std::string key_hex, value_text;
  fabric::OpStats stats;
};

// An operation that ended inside the measurement window. A worker collects a few of them before it adds them
// to its tally, because the tallies of a large simulation's workers exceed the CPU cache.
struct Driver::Ended {
  Nanos at = 0;
  Nanos latency = 0;
  std::uint32_t retries = 0;
  OpKind kind = OpKind::get;
  OpStatus status = OpStatus::ok;
  bool is_verified = false, is_corrupt = false;

  // Adds to the tally what it counts of this operation (status, latency, retries, verdict of the check), but
  // not the time at which the operation ended.
  void add_to(measure::Tally& tally) const {
    measure::KindTally& own = tally.of(kind);
    ++own.by_status[static_cast<std::size_t>(status)];
    if (is_completed(status)) own.latency_ns.record(latency);
    tally.retries += retries;
    tally.verified += is_verified ? 1 : 0;
    tally.corrupt += is_corrupt ? 1 : 0;
  }
};

// Operations of one kind with equal request statistics, counted together: most operations of a worker are
// alike, and adding each to the tally would take longer.
struct Driver::Alike {
  static_assert(std::has_unique_object_representations_v<fabric::OpStats> &&
                sizeof(fabric::OpStats) % 8 == 0);
  using Words = std::array<std::uint64_t, sizeof(fabric::OpStats) / 8>;
  fabric::OpStats stats;
  std::uint64_t times = 0;
  OpKind kind = OpKind::get;

  [[nodiscard]] bool has(OpKind other_kind, const fabric::OpStats& other) const {
    const Words mine = std::bit_cast<Words>(stats), theirs = std::bit_cast<Words>(other);
    std::uint64_t different = kind == other_kind ? 0 : 1;
    for (std::size_t i = 0; i < mine.size(); ++i) different |= mine[i] ^ theirs[i];
    return different == 0;
  }
  // A number below `groups`, the same for operations that are alike and mostly another one for others.
  static constexpr std::size_t groups = 16;
  [[nodiscard]] static std::size_t group_of(OpKind kind, const fabric::OpStats& stats) {
    const std::uint64_t mixed =
        stats.wire_bytes ^ std::uint64_t{stats.local_accesses} << 32 ^ std::uint64_t{stats.index_read} << 40 ^
        std::uint64_t{stats.cache_hits} << 48 ^ static_cast<std::uint64_t>(kind) << 56;
    // The factor is 2^64 divided by the golden ratio, whose multiples are spread evenly.
    return static_cast<std::size_t>((mixed * 0x9E3779B97F4A7C15ULL) >> 60);
  }
  void add_to(measure::Tally& tally) {
    if (times != 0) tally.of(kind).requests.record(stats, times);
    times = 0;
  }
};

struct Driver::ClientWorker {
  fabric::Worker* worker = nullptr;
  std::uint32_t index = 0;        // index of the worker on its node
  std::uint32_t incarnation = 0;  // incarnation of the worker's node: how often the node has restarted
  Rng rng;                        // random stream for records, operation kinds and gaps
  std::vector<std::unique_ptr<Slot>> slots;
  bool done = false;  // tells the store's background coroutine to end
  // whether this worker will be killed by a planned failure, so that the run does not await its end
  bool is_doomed = false;
  // whether all window slots (places for one operation each) of this worker have ended
  std::atomic<bool> has_ended{false};
  std::uint64_t quota = 0;  // operations that this worker still has to start, if the load counts operations
  std::uint64_t place = 0;  // identifies the next record under Distribution::sequential
  Nanos due = -1;           // open loop: time at which the next operation is due
  bool is_reader = false;   // whether this client worker is one of the LoadConfig::readers, which only read
  measure::Tally tally;
  measure::TimelineRecorder recorder;
  Nanos measured_from = 0;  // time at which the measurement window starts
  Nanos middle = 0;         // time of the middle of the measurement window; 0 if the load counts operations
  // Number of operations that ended; read by the thread that displays progress.
  std::atomic<std::uint64_t> completed{0};
  std::atomic<Nanos> latest_ns{-1};

  Ended& next_ended() {
    if (ended_count == ended.size()) [[unlikely]]
      add_ended();
    return ended[ended_count++];
  }
  [[gnu::always_inline]] void count_requests(OpKind kind, const fabric::OpStats& stats) {
    const std::size_t group = Alike::group_of(kind, stats);
    // Two groups with the same number lie in neighbouring places.
    const std::size_t found = alike[group].has(kind, stats) ? group : group ^ 1;
    if (found != group && !alike[found].has(kind, stats)) [[unlikely]] {
      replace_alike(group, kind, stats);
      return;
    }
    ++alike[found].times;
  }
  // Adds all ended operations to the tally, and returns the tally.
  const measure::Tally& settle() {
    add_ended();
    for (Alike& each : alike) each.add_to(tally);
    return tally;
  }

 private:
  void add_ended() {
    if (ended_count == 0) return;
    for (std::uint32_t i = 0; i < ended_count; ++i) {
      const Ended& each = ended[i];
      each.add_to(tally);
      tally.first_half += is_completed(each.status) && each.at < middle ? 1 : 0;
      recorder.record(each.at - measured_from, each.latency, is_completed(each.status));
    }
    // the valid entries of `ended` are in the order of time
    tally.first_ns = std::min(tally.first_ns, ended[0].at);
    tally.last_ns = std::max(tally.last_ns, ended[ended_count - 1].at);
    ended_count = 0;
  }
  // Puts a group for this operation in place `group`. The group there moves to the neighbouring place, whose
  // group is added to the tally.
  [[gnu::noinline]] void replace_alike(std::size_t group, OpKind kind, const fabric::OpStats& stats) {
    alike[group ^ 1].add_to(tally);
    alike[group ^ 1] = alike[group];
    alike[group] = {.stats = stats, .times = 1, .kind = kind};
  }

  // Ended operations not yet added to the tally; the first `ended_count` are valid
  std::array<Ended, 8> ended;
  std::uint32_t ended_count = 0;
  std::array<Alike, Alike::groups> alike;
};

}  // namespace loch::workloads
