// Background CPU workers: processes that compute SHA-256 (OpenSSL) for ever and count their hashes, as those
// that disturb the servers of Nessie 2015 and 2017. A process each, so that their time and their death are
// nobody else's.
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
  std::vector<std::uint32_t> cores;  // worker i stays on cores[i % size]; empty: wherever the kernel puts it
  std::uint32_t buffer_bytes = 64;   // hashed again and again
};

// What one worker has done so far.
struct WorkerUsage {
  std::uint64_t hashes = 0;
  Nanos cpu = 0;
};

// They are children of the process that starts them: in its session, its process group and its cgroup. They
// do not outlive it, nor the thread that started them.
class CpuLoad {
 public:
  // Forks them; they wait for go(). Fails where a process cannot be had (exhausted) or a core is not ours
  // (invalid_argument). Best called while the process has one thread.
  [[nodiscard]] static Result<std::unique_ptr<CpuLoad>> start(const CpuLoadConfig& config);
  ~CpuLoad();  // stops the processes
  CpuLoad(const CpuLoad&) = delete;
  CpuLoad& operator=(const CpuLoad&) = delete;

  void go();
  // By worker. Any thread, also while they run; after stop(), what they had done by then.
  [[nodiscard]] std::vector<WorkerUsage> usage() const;
  // Ends them; the number of those that had ended before (killed by somebody else). Again: the same.
  std::uint32_t stop();

 private:
  struct Counter;
  CpuLoad() = default;

  Counter* counters_ = nullptr;  // one per worker, in memory that they share with us
  std::size_t counters_bytes_ = 0;
  int go_ = -1;  // end of a pipe: closing it starts the processes
  std::vector<pid_t> pids_;
  std::vector<Nanos> cpu_at_end_;  // once stopped
  std::uint32_t lost_ = 0;
};

}  // namespace loch::background
