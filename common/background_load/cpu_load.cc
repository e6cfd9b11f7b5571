// Forks background processes that compute SHA-256 until they are stopped, and counts their hashes and CPU
// time.
#include "common/background_load/cpu_load.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "common/base/die_with_parent.h"

namespace loch::background {
namespace {

// The byte that each worker process writes to a pipe before it waits for go(): `ready`, or the reason why the
// worker cannot run.
enum Ready : char { ready = 'r', no_such_core = 'c', no_digest = 'd' };

[[nodiscard]] Nanos cpu_of(pid_t pid) {
  clockid_t clock = 0;
  timespec at{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &at) != 0) return 0;
  return at.tv_sec * 1'000'000'000LL + at.tv_nsec;
}

// Pins process `pid` (0: the calling process) to one core; false if that is not possible.
[[nodiscard]] bool keep_on(pid_t pid, std::uint32_t core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (core >= CPU_SETSIZE) return false;
  CPU_SET(core, &set);
  return sched_setaffinity(pid, sizeof set, &set) == 0;
}

struct Pipe {
  int from = -1, to = -1;
  static Pipe make() {
    std::array<int, 2> ends{-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
    return {ends[0], ends[1]};
  }
};

}  // namespace

// on its own cache line: background workers must compete for cores, not for a cache line
struct alignas(64) CpuLoad::Counter {
  std::atomic<std::uint64_t> hashes;
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
};

namespace {

// The loop of a background worker: hashes `buffer_bytes` bytes again and again until the process is
// killed.
[[noreturn]] void hash_for_ever(std::atomic<std::uint64_t>& hashes, std::uint32_t buffer_bytes) {
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  const EVP_MD* const sha256 = EVP_sha256();
  std::vector<unsigned char> buffer(buffer_bytes, 0x5a);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  for (std::uint64_t done = 0; context != nullptr;) {
    unsigned length = 0;
    if (EVP_DigestInit_ex(context, sha256, nullptr) != 1 ||
        EVP_DigestUpdate(context, buffer.data(), buffer.size()) != 1 ||
        EVP_DigestFinal_ex(context, digest.data(), &length) != 1)
      break;
    // The digest becomes part of the next input, so that the compiler cannot leave out any hash.
    std::memcpy(buffer.data(), digest.data(), std::min<std::size_t>(length, buffer.size()));
    hashes.store(++done, std::memory_order_relaxed);
  }
  _exit(1);
}

void say(int pipe, Ready what) {
  const char text = what;
  if (write(pipe, &text, 1) != 1) _exit(1);
}

[[nodiscard]] Result<> await_ready(int pipe, std::uint32_t workers, const CpuLoadConfig& config) {
  for (std::uint32_t i = 0; i < workers; ++i) {
    char said = 0;
    ssize_t got = 0;
    while ((got = read(pipe, &said, 1)) < 0 && errno == EINTR) {
    }
    if (got != 1) return fail(ErrorCode::unavailable, "background workers: a worker ended before it began");
    if (said == no_digest)
      return fail(ErrorCode::unsupported, "background workers: OpenSSL has no SHA-256 here");
    if (said == no_such_core)
      return fail(
          ErrorCode::invalid_argument,
          fmt::format(
              "background workers: a worker cannot be pinned: this process may not use all of its {} cores",
              config.cores.size()));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<CpuLoad>> CpuLoad::start(const CpuLoadConfig& config) {
  std::unique_ptr<CpuLoad> load(new CpuLoad);
  load->counters_bytes_ = sizeof(Counter) * std::max(1U, config.workers);
  void* const memory =
      mmap(nullptr, load->counters_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return fail(ErrorCode::exhausted, "background workers: no memory for their counters");
  // mmap() zeroes the pages, so every hash counter begins at 0
  load->counters_ = static_cast<Counter*>(memory);
  const Pipe go = Pipe::make(), told = Pipe::make();
  load->go_ = go.to;
  Result<> ok;
  if (go.from < 0 || told.from < 0)
    ok = fail(ErrorCode::exhausted, fmt::format("background workers: no pipe: {}", std::strerror(errno)));
  const pid_t parent = getpid();
  for (std::uint32_t i = 0; i < config.workers && ok; ++i) {
    const pid_t pid = fork();
    if (pid < 0) {
      ok = fail(ErrorCode::exhausted,
                fmt::format("background workers: cannot start worker {}: {}", i, std::strerror(errno)));
    } else if (pid == 0) {
      if (!die_with_parent(parent)) _exit(1);
      for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
      prctl(PR_SET_NAME, "loch-hog");
      close(go.to);
      if (!config.cores.empty() && !keep_on(0, config.cores[i % config.cores.size()])) {
        say(told.to, no_such_core);
        _exit(1);
      }
      say(told.to, EVP_sha256() != nullptr ? ready : no_digest);
      char nothing = 0;
      while (read(go.from, &nothing, 1) < 0 && errno == EINTR) {
      }
      hash_for_ever(load->counters_[i].hashes, config.buffer_bytes);
    } else {
      load->pids_.push_back(pid);
    }
  }
  close(told.to);
  if (ok) ok = await_ready(told.from, config.workers, config);
  close(told.from);
  close(go.from);
  LOCH_TRY(ok);
  return load;
}

CpuLoad::~CpuLoad() {
  stop();
  if (counters_ != nullptr) munmap(counters_, counters_bytes_);
}

Result<> CpuLoad::pin_to(const std::vector<std::uint32_t>& cores) {
  for (std::size_t i = 0; i < pids_.size() && !cores.empty(); ++i) {
    const std::uint32_t core = cores[i % cores.size()];
    if (!keep_on(pids_[i], core))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("background workers: a worker cannot be pinned to core {}", core));
  }
  return {};
}

void CpuLoad::go() {
  if (go_ >= 0) close(go_);
  go_ = -1;
}

std::vector<WorkerUsage> CpuLoad::usage() const {
  std::vector<WorkerUsage> all;
  for (std::size_t i = 0; i < pids_.size(); ++i) {
    const Nanos cpu = cpu_at_end_.empty() ? cpu_of(pids_[i]) : cpu_at_end_[i];
    all.push_back({counters_[i].hashes.load(std::memory_order_relaxed), cpu});
  }
  return all;
}

std::uint32_t CpuLoad::stop() {
  if (!cpu_at_end_.empty() || pids_.empty()) return lost_;
  std::vector<Nanos> cpu;
  for (const pid_t pid : pids_) {
    siginfo_t info{};
    // WNOWAIT does not reap the child, so that its process id and its CPU clock remain valid.
    if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid)
      ++lost_;
    cpu.push_back(cpu_of(pid));
    kill(pid, SIGKILL);
  }
  cpu_at_end_ = std::move(cpu);
  for (const pid_t pid : pids_) {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  go();
  return lost_;
}

}  // namespace loch::background
