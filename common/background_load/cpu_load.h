// Background CPU workers: processes that compute SHA-256 (OpenSSL) in a loop and count their hashes, like
// those that disturb the servers in the papers on Nessie of 2015 and 2017. Each worker is a process of
// its own, so that its CPU time can be read separately and its death ends no other worker.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace loch::background {

struct CpuLoadConfig {
  std::uint32_t workers = 1;
  // worker i is pinned to cores[i % size]; if empty, workers are not pinned
  std::vector<std::uint32_t> cores;
  std::uint32_t buffer_bytes = 64;  // input of one SHA-256 computation
};

// What one background worker has done since it started: its number of hashes, and its CPU time in ns.
struct WorkerUsage {
  std::uint64_t hashes = 0;
  Nanos cpu = 0;
};

// Background workers. They are children of the process that starts them, in its session, process group
// and cgroup. The kernel kills them when that process, or the thread that called start(), ends.
class CpuLoad {
 public:
  // Forks the workers, which then wait for go(). Fails with `exhausted` if a process cannot be created,
  // with `invalid_argument` if this process may not use one of the cores. Best called while the process
  // has one thread, because of fork().
  [[nodiscard]] static Result<std::unique_ptr<CpuLoad>> start(const CpuLoadConfig& config);
  ~CpuLoad();  // kills the worker processes
  CpuLoad(const CpuLoad&) = delete;
  CpuLoad& operator=(const CpuLoad&) = delete;

  // Pins worker i to cores[i % size]; to be called before go(). Fails with invalid_argument if one of the
  // cores may not be used. An empty list changes nothing.
  [[nodiscard]] Result<> pin_to(const std::vector<std::uint32_t>& cores);
  void go();
  // Returns the usage of each worker: so far or, after stop(), in all. Any thread may call this function,
  // also while the workers run.
  [[nodiscard]] std::vector<WorkerUsage> usage() const;
  // Kills all workers. Returns how many had ended before (killed by some other process); a second call
  // returns the same number.
  std::uint32_t stop();

 private:
  struct Counter;
  CpuLoad() = default;

  Counter* counters_ = nullptr;  // one hash counter per worker, in memory shared with the worker processes
  std::size_t counters_bytes_ = 0;
  int go_ = -1;  // write end of a pipe; closing it lets the waiting worker processes start
  std::vector<pid_t> pids_;
  std::vector<Nanos> cpu_at_end_;  // final CPU time of each worker; empty until stop()
  std::uint32_t lost_ = 0;
};

}  // namespace loch::background
