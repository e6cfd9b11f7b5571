// State that the processes of one job share on a machine: a control block in POSIX shared memory with each
// rank's identity and region directory, barriers and gathering. Control path: per operation only is_lost() is
// called, one relaxed load.
//
//   /loch.JOB.ctl      control block (layout below), created by rank 0
//   /loch.JOB.R.rN     region N of rank R
//   /loch.JOB.R.wN     receive area of worker N of rank R
// All objects are created with O_EXCL and mode 0600, and unlinked once all ranks have mapped them, before the
// load starts: a process that is killed after that leaves nothing behind. The text that a rank contributes to
// a gather has no name at all: it is a memfd that the reader opens through /proc/PID/fd.
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
  // The rank's process id, with its start time, so that a reused id is not mistaken for the rank.
  std::atomic<std::int32_t> pid;
  std::atomic<std::uint64_t> pid_start;
  std::atomic<std::uint32_t> is_lost;  // 1: the rank's process is known to be dead
  std::atomic<std::uint32_t> has_left;
  std::atomic<std::uint64_t> barriers;      // number of barriers that this rank has reached
  std::atomic<std::uint64_t> runs_ended;    // number of runs that this rank's clients have completed
  std::atomic<std::uint64_t> gather_bytes;  // size of this rank's text in the current gather
  std::atomic<std::int32_t> gather_file;    // file descriptor of the rank's text, valid in the rank's process
  // identifies the last gather (collection of a text from every rank) whose texts this rank has read
  std::atomic<std::uint64_t> gathered;
  std::atomic<std::uint32_t> workers;
  std::atomic<std::uint32_t> regions;
  RegionEntry region[max_regions];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::int32_t>::is_always_lock_free);

struct ControlBlock {
  static constexpr std::uint64_t valid_magic = 0x6C6F63682D73686DULL;  // the characters "loch-shm"
  static constexpr std::uint32_t current_version = 2;
  std::atomic<std::uint64_t> magic;  // valid_magic once the block is complete; stored last
  std::uint32_t version;
  std::uint32_t ranks;
  std::int32_t creator;  // process id of rank 0
  std::uint64_t creator_start;
  std::atomic<std::uint32_t> is_unlinked;  // 1: a rank has removed the control block's name, or is about to
  std::int64_t clock_base_ns;              // CLOCK_MONOTONIC at creation: zero of the fabric's clock
  // The entry of a rank; the entries of all ranks follow this block in memory.
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
  // Joins a job. Rank 0 removes what dead jobs left on the machine and creates the control block; the others
  // wait for the block, `within` at most.
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

  // Creates this rank's shared-memory object number `id`, zeroed and with all its pages reserved. `kind` is
  // 'r' for a region, 'w' for a worker's receive area.
  [[nodiscard]] Result<Mapping> create(char kind, std::uint64_t id, std::size_t bytes);
  [[nodiscard]] Result<Mapping> map(std::uint32_t rank, char kind, std::uint64_t id, std::size_t bytes) const;
  // Removes the names of this rank's objects and of the control block. To be called once every rank has
  // mapped everything.
  void forget_names();

  // Waits until all ranks that are alive have called barrier(). After `within` it returns an error that names
  // the missing ranks.
  [[nodiscard]] Result<> barrier(std::string_view what, Nanos within);
  // Collects a text from every rank. The lowest rank alive receives all texts; the other ranks receive an
  // empty list, after that rank has read the texts.
  [[nodiscard]] Result<std::vector<std::string>> gather(const std::string& mine, Nanos within);
  // Announces that this rank's clients have ended run number `run`, counted from 1.
  void clients_ended(std::uint64_t run) { mine().runs_ended.store(run); }
  // The ranks whose clients have not ended run number `run`, without those that have died or left the job.
  // With `look`, it looks for dead processes first, which is slow.
  [[nodiscard]] std::vector<std::uint32_t> ranks_running(std::uint64_t run, bool look);

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
