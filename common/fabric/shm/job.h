// What the processes of one job share on a machine: a control block in POSIX shared memory with each
// rank's identity, its region directory, barriers and gathering. Set-up path: nothing here is called
// per operation except is_lost(), one relaxed load.
//
//   /loch.JOB.ctl      control block (layout below), made by rank 0
//   /loch.JOB.R.rN     region N of rank R
//   /loch.JOB.R.wN     receive area of worker N
// All are made with O_EXCL and mode 0600, and unlinked once all ranks have mapped everything, before
// the load starts: whatever is killed after that leaves nothing behind. What a rank gives to a gather
// has no name at all: a memfd that the reader opens through /proc/PID/fd.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/realtime/mapping.h"

namespace loch::fabric::shm {

struct RegionEntry {
  char name[96];
  std::uint64_t bytes;
  std::uint32_t rkey;
  std::uint32_t rights;  // bits: 1 read, 2 write, 4 atomic
};
static_assert(sizeof(RegionEntry) == 112);

struct RankSlot {
  static constexpr std::uint32_t max_regions = 128;
  // The rank's process id; with its start time, so that a reused id is not mistaken for the rank.
  std::atomic<std::int32_t> pid;
  std::atomic<std::uint64_t> pid_start;
  std::atomic<std::uint32_t> is_lost;  // died: certainly runs no more
  std::atomic<std::uint32_t> has_left;
  std::atomic<std::uint64_t> barriers;      // number of barriers that this rank has reached
  std::atomic<std::uint64_t> runs_ended;    // number of runs that this rank's clients have completed
  std::atomic<std::uint64_t> gather_bytes;  // size of this rank's text in the current gather
  std::atomic<std::int32_t> gather_file;    // file descriptor of the rank's text, valid in the rank's process
  std::atomic<std::uint64_t> gathered;      // number of the last gather whose texts it has read
  std::atomic<std::uint32_t> workers;
  std::atomic<std::uint32_t> regions;
  RegionEntry region[max_regions];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::int32_t>::is_always_lock_free);

struct ControlBlock {
  static constexpr std::uint64_t valid_magic = 0x6C6F63682D73686DULL;  // "loch-shm"
  static constexpr std::uint32_t current_version = 2;
  std::atomic<std::uint64_t> magic;  // written last
  std::uint32_t version;
  std::uint32_t ranks;
  std::int32_t creator;  // rank 0's process
  std::uint64_t creator_start;
  std::atomic<std::uint32_t> is_unlinked;  // set by the rank that removes the names
  std::int64_t clock_base_ns;              // CLOCK_MONOTONIC at creation: zero of the fabric's clock
  // The slots follow.
  [[nodiscard]] RankSlot& slot(std::uint32_t rank) { return reinterpret_cast<RankSlot*>(this + 1)[rank]; }
  [[nodiscard]] const RankSlot& slot(std::uint32_t rank) const {
    return reinterpret_cast<const RankSlot*>(this + 1)[rank];
  }
  [[nodiscard]] static std::size_t bytes(std::uint32_t ranks) {
    return sizeof(ControlBlock) + ranks * sizeof(RankSlot);
  }
};
static_assert(sizeof(ControlBlock) % alignof(RankSlot) == 0);

using realtime::Mapping;

class Job {
 public:
  // Rank 0 clears what dead jobs left on the machine and makes the control block; the others wait
  // for it, `within` at most.
  [[nodiscard]] static Result<std::unique_ptr<Job>> join(const std::string& name, std::uint32_t rank,
                                                         std::uint32_t ranks, Nanos within);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const { return control().ranks; }
  [[nodiscard]] RankSlot& mine() { return control().slot(rank_); }
  [[nodiscard]] const RankSlot& of(std::uint32_t rank) const { return control().slot(rank); }
  [[nodiscard]] std::int64_t clock_base_ns() const { return control().clock_base_ns; }
  [[nodiscard]] bool is_lost(std::uint32_t rank) const {
    return control().slot(rank).is_lost.load(std::memory_order_relaxed) != 0;
  }

  // Makes (zeroed, all pages reserved) or maps an object of a rank: object 'r' or 'w' number `id`.
  [[nodiscard]] Result<Mapping> create(char kind, std::uint64_t id, std::size_t bytes);
  [[nodiscard]] Result<Mapping> map(std::uint32_t rank, char kind, std::uint64_t id, std::size_t bytes) const;
  // Every rank has mapped everything: removes the names of this rank's objects and of the control block.
  void forget_names();

  // Meets all ranks that are alive; names the missing ones after `within`.
  [[nodiscard]] Result<> barrier(std::string_view what, Nanos within);
  // The lowest rank alive gets all texts; the others nothing, after it has read them.
  [[nodiscard]] Result<std::vector<std::string>> gather(const std::string& mine, Nanos within);
  // This rank's clients have ended their run number `run` (1 …).
  void clients_ended(std::uint64_t run) { mine().runs_ended.store(run); }
  // True when every rank's have, those of lost and departed ranks not counted. `look`: for dead
  // processes too (slow).
  [[nodiscard]] bool all_clients_ended(std::uint64_t run, bool look);

 private:
  Job(std::string name, std::uint32_t rank, Mapping control)
      : name_(std::move(name)), rank_(rank), control_(std::move(control)) {}
  [[nodiscard]] ControlBlock& control() const { return *reinterpret_cast<ControlBlock*>(control_.data()); }
  [[nodiscard]] std::string object(std::uint32_t rank, char kind, std::uint64_t id) const;
  [[nodiscard]] std::uint32_t lowest_alive() const;
  [[nodiscard]] std::vector<std::string> read_texts(const std::string& mine) const;
  void look_for_dead();

  std::string name_;
  std::uint32_t rank_;
  Mapping control_;
  std::uint64_t gathers_ = 0;
};

}  // namespace loch::fabric::shm
