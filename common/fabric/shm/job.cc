// Creates and maps the shared memory of a job (the processes of one run), and notices when one of them dies.
#include "common/fabric/shm/job.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <sstream>
#include <utility>

#include "common/base/check.h"
#include "common/fabric/shm/shm.h"

namespace loch::fabric::shm {
namespace {

constexpr std::string_view prefix = "loch.";
constexpr Nanos poll_interval = 200'000;  // ns between two checks while a process waits for the others
constexpr Nanos dead_check_interval = 50'000'000;

Nanos monotonic() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1'000'000'000LL + at.tv_nsec;
}

void pause_for(Nanos span) {
  const timespec interval{0, span};
  nanosleep(&interval, nullptr);
}

// Start time of a process in clock ticks since boot (/proc/PID/stat, field 22); 0: it does not run. A zombie
// without threads counts as ended, even before its parent has reaped it.
std::uint64_t start_time(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/stat", pid);
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return 0;
  char text[1024];
  const std::size_t length = std::fread(text, 1, sizeof text - 1, file);
  (void)std::fclose(file);
  text[length] = 0;
  // Field 2 of the file is the program's name in parentheses, which may contain blanks; it ends at the last
  // ')'.
  const char* at = std::strrchr(text, ')');
  if (at == nullptr) return 0;
  std::istringstream fields(at + 1);
  std::string state, skipped;
  fields >> state;
  for (int field = 4; field < 20; ++field) fields >> skipped;
  int threads = 0;
  std::uint64_t start = 0;
  fields >> threads >> skipped >> start;
  if (!fields || state == "X" || (state == "Z" && threads <= 1)) return 0;
  return start;
}

bool is_alive(pid_t pid, std::uint64_t start) { return pid != 0 && start_time(pid) == start && start != 0; }

Error system_error(std::string_view what, const std::string& name) {
  const ErrorCode code = errno == ENOSPC || errno == ENOMEM ? ErrorCode::exhausted : ErrorCode::unavailable;
  return {code, fmt::format("shared memory {}: {}: {}", name, what, std::strerror(errno))};
}

Result<Mapping> map_file(int file, const std::string& name, std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return std::unexpected(system_error("cannot be mapped", name));
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return Mapping(static_cast<std::byte*>(memory), bytes);
}

Result<Mapping> create_object(const std::string& name, std::size_t bytes) {
  const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return std::unexpected(system_error("cannot be made", name));
  int error = 0;
  do {
    // reserves the memory, so that no access raises SIGBUS later
    error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  Result<Mapping> mapping = Mapping();
  if (error != 0) {
    errno = error;
    mapping = std::unexpected(system_error(fmt::format("has no room for {} bytes", bytes), name));
  } else {
    mapping = map_file(file, name, bytes);
  }
  close(file);
  if (!mapping) shm_unlink(name.c_str());
  return mapping;
}

Result<Mapping> open_object(const std::string& name, std::size_t bytes) {
  const int file = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return std::unexpected(system_error("cannot be opened", name));
  struct stat status{};
  if (fstat(file, &status) != 0 || static_cast<std::size_t>(status.st_size) < bytes) {
    close(file);
    return fail(ErrorCode::unavailable, fmt::format("shared memory {}: shorter than {} bytes", name, bytes));
  }
  auto mapping = map_file(file, name, bytes);
  close(file);
  return mapping;
}

// A file descriptor, which the destructor closes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = write(file, text.data(), text.size());
    if (done < 0 && errno != EINTR) return false;
    if (done > 0) text.remove_prefix(static_cast<std::size_t>(done));
  }
  return file >= 0;
}

// Reads text.size() bytes from the start of the file into `text`; returns false if the file has fewer.
bool read_all(int file, std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t done = pread(file, text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (done == 0 || (done < 0 && errno != EINTR)) return false;
    if (done > 0) at += static_cast<std::size_t>(done);
  }
  return file >= 0;
}

std::string control_name(std::string_view job) { return fmt::format("/{}{}.ctl", prefix, job); }

// Maps the control block including the slots of all ranks, whose number is read from its header first.
Result<Mapping> open_control(const std::string& name) {
  LOCH_ASSIGN(const Mapping head, open_object(name, sizeof(ControlBlock)));
  const auto& block = *reinterpret_cast<const ControlBlock*>(head.data());
  if (block.magic.load(std::memory_order_acquire) != ControlBlock::valid_magic ||
      block.version != ControlBlock::current_version) {
    return fail(ErrorCode::unavailable,
                fmt::format("shared memory {}: no control block of this version yet", name));
  }
  return open_object(name, ControlBlock::bytes(block.ranks));
}

ControlBlock& block_of(const Mapping& mapping) { return *reinterpret_cast<ControlBlock*>(mapping.data()); }

bool anyone_alive(const ControlBlock& block) {
  if (is_alive(block.creator, block.creator_start)) return true;
  for (std::uint32_t rank = 0; rank < block.ranks; ++rank) {
    if (is_alive(block.slot(rank).pid.load(), block.slot(rank).pid_start.load())) return true;
  }
  return false;
}

std::vector<std::string> object_names() {
  std::vector<std::string> names;
  DIR* folder = opendir("/dev/shm");
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(prefix)) names.emplace_back(name);
  }
  closedir(folder);
  return names;
}

// Job name in the name of a shared-memory object: "loch.JOB.ctl" and "loch.JOB.0.r3" belong to JOB, which
// contains no dots.
std::string job_of(std::string_view object) {
  const std::string_view rest = object.substr(prefix.size());
  return std::string(rest.substr(0, rest.find('.')));
}

void unlink_with_prefix(std::string_view start) {
  for (const std::string& name : object_names()) {
    if (name.starts_with(start)) shm_unlink(("/" + name).c_str());
  }
}

// Whether no rank of the job is alive. A rank that never joined counts as dead.
bool everyone_gone(const ControlBlock& block) {
  for (std::uint32_t rank = 0; rank < block.ranks; ++rank) {
    const RankSlot& slot = block.slot(rank);
    if (slot.pid.load() != 0 && slot.is_lost.load() == 0 && slot.has_left.load() == 0) return false;
  }
  return true;
}

// Removes the name of the control block if every rank has left the job. Only one rank removes it: a second
// removal could remove the name of the next job's control block, which has the same name.
void unlink_if_last(ControlBlock& block, const std::string& name) {
  if (everyone_gone(block) && block.is_unlinked.exchange(1) == 0) shm_unlink(name.c_str());
}

// Waits, `within` at most, until all processes of an earlier job of this name have left it, as when a process
// starts its next run before the others have ended the previous one. Fails at once if rank 0 of that job has
// not left it.
Result<> await_end_of_earlier_run(const std::string& name, Nanos within) {
  const Nanos deadline = monotonic() + within;
  for (;;) {
    const auto old = open_control(name);
    if (!old) return {};
    const ControlBlock& block = block_of(*old);
    if (!anyone_alive(block)) {
      shm_unlink(name.c_str());
      return {};
    }
    if (block.slot(0).has_left.load() == 0 || monotonic() > deadline) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("shared memory {}: a job of this name is running", name));
    }
    pause_for(poll_interval);
  }
}

Result<Mapping> make_control(const std::string& name, std::uint32_t ranks, Nanos within) {
  LOCH_TRY(await_end_of_earlier_run(name, within));
  LOCH_ASSIGN(Mapping mapping, create_object(name, ControlBlock::bytes(ranks)));
  ControlBlock& block = block_of(mapping);
  block.version = ControlBlock::current_version;
  block.ranks = ranks;
  block.creator = getpid();
  block.creator_start = start_time(getpid());
  block.clock_base_ns = monotonic();
  block.magic.store(ControlBlock::valid_magic, std::memory_order_release);
  return mapping;
}

// Whether the control block belongs to the current run. If its creator is dead, or if this rank or rank 0 has
// left it, the block belongs to an earlier run, and rank 0 has not created the block of the current run yet.
bool is_current(const ControlBlock& block, std::uint32_t rank) {
  if (!is_alive(block.creator, block.creator_start)) return false;
  return block.slot(0).has_left.load() == 0 && (rank >= block.ranks || block.slot(rank).has_left.load() == 0);
}

Result<Mapping> await_control(const std::string& name, std::uint32_t rank, std::uint32_t ranks,
                              Nanos within) {
  const Nanos deadline = monotonic() + within;
  for (;;) {
    auto mapping = open_control(name);
    if (mapping && is_current(block_of(*mapping), rank)) {
      if (block_of(*mapping).ranks != ranks) {
        return fail(ErrorCode::invalid_argument, fmt::format("shared memory {}: made for {} nodes, not {}",
                                                             name, block_of(*mapping).ranks, ranks));
      }
      return mapping;
    }
    if (monotonic() > deadline) {
      return fail(ErrorCode::timed_out, fmt::format("shared memory {}: node 0 did not make it within {}",
                                                    name, format_duration(within)));
    }
    pause_for(poll_interval);
  }
}

}  // namespace

Result<std::unique_ptr<Job>> Job::join(const std::string& name, std::uint32_t rank, std::uint32_t ranks,
                                       Nanos within) {
  if (name.empty() || name.size() > 128 || name.find_first_of("./ ") != std::string::npos) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("job \"{}\": expected 1 to 128 characters, none of '.', '/' and blank", name));
  }
  if (rank == 0) (void)remove_stale_jobs();
  LOCH_ASSIGN(Mapping control, rank == 0 ? make_control(control_name(name), ranks, within)
                                         : await_control(control_name(name), rank, ranks, within));
  std::unique_ptr<Job> job(new Job(name, rank, std::move(control)));
  job->mine().pid_start.store(start_time(getpid()));
  job->mine().pid.store(getpid());
  return job;
}

Job::~Job() {
  mine().has_left.store(1);
  unlink_with_prefix(fmt::format("{}{}.{}.", prefix, name_, rank_));
  unlink_if_last(control(), control_name(name_));
}

std::string Job::object(std::uint32_t rank, char kind, std::uint64_t id) const {
  return fmt::format("/{}{}.{}.{}{}", prefix, name_, rank, kind, id);
}

Result<Mapping> Job::create(char kind, std::uint64_t id, std::size_t bytes) {
  return create_object(object(rank_, kind, id), bytes);
}

Result<Mapping> Job::map(std::uint32_t rank, char kind, std::uint64_t id, std::size_t bytes) const {
  return open_object(object(rank, kind, id), bytes);
}

void Job::forget_names() {
  unlink_with_prefix(fmt::format("{}{}.{}.", prefix, name_, rank_));
  if (control().is_unlinked.exchange(1) == 0) shm_unlink(control_name(name_).c_str());
}

void Job::look_for_dead() {
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    RankSlot& slot = control().slot(rank);
    const pid_t pid = slot.pid.load();
    if (pid != 0 && slot.has_left.load() == 0 && slot.is_lost.load() == 0 &&
        !is_alive(pid, slot.pid_start.load())) {
      // has_left is read again, because the rank may have left before is_alive() was called
      if (slot.has_left.load() == 0) slot.is_lost.store(1);
    }
  }
}

Result<> Job::barrier(std::string_view what, Nanos within) {
  const std::uint64_t target = mine().barriers.load() + 1;
  mine().barriers.store(target);
  const Nanos started = monotonic();
  Nanos next_check = started + dead_check_interval;
  for (;;) {
    std::vector<std::uint32_t> missing;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      const RankSlot& slot = of(rank);
      if (slot.barriers.load() >= target || slot.is_lost.load() != 0) continue;
      if (slot.has_left.load() != 0) {
        return fail(ErrorCode::unavailable, fmt::format("{}: node {} has left the job", what, rank));
      }
      missing.push_back(rank);
    }
    if (missing.empty()) return {};
    const Nanos now = monotonic();
    if (now - started > within) {
      return fail(ErrorCode::timed_out, fmt::format("{}: node {} did not come within {}", what,
                                                    fmt::join(missing, ", "), format_duration(within)));
    }
    if (now > next_check) {
      look_for_dead();
      next_check = now + dead_check_interval;
    }
    pause_for(poll_interval);
  }
}

std::uint32_t Job::lowest_alive() const {
  std::uint32_t rank = 0;
  while (rank < rank_ && is_lost(rank)) ++rank;
  return rank;
}

// The texts of all ranks. The text of a rank that died is empty.
std::vector<std::string> Job::read_texts(const std::string& text) const {
  std::vector<std::string> texts(ranks());
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    if (rank == rank_) texts[rank] = text;
    if (rank == rank_ || is_lost(rank)) continue;
    const std::string path = fmt::format("/proc/{}/fd/{}", of(rank).pid.load(), of(rank).gather_file.load());
    std::string theirs(of(rank).gather_bytes.load(), '\0');
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (read_all(file.number(), theirs)) texts[rank] = std::move(theirs);
  }
  return texts;
}

Result<std::vector<std::string>> Job::gather(const std::string& text, Nanos within) {
  const std::uint64_t number = ++gathers_;
  const Descriptor file(memfd_create("loch.gather", MFD_CLOEXEC));
  if (!write_all(file.number(), text))
    return std::unexpected(system_error("cannot be written", "of results"));
  mine().gather_bytes.store(text.size());
  mine().gather_file.store(file.number());
  LOCH_TRY(barrier("gathering of results", within));
  const Nanos deadline = monotonic() + within;
  // The lowest rank that is alive reads the texts. If it dies before it has read them, the next rank alive
  // does.
  for (;;) {
    const std::uint32_t reader = lowest_alive();
    if (reader == rank_) {
      std::vector<std::string> texts = read_texts(text);
      mine().gathered.store(number);
      return texts;
    }
    if (of(reader).gathered.load() >= number) return std::vector<std::string>();
    if (monotonic() > deadline) {
      return fail(ErrorCode::timed_out,
                  fmt::format("gathering of results: node {} did not read them within {}", reader,
                              format_duration(within)));
    }
    look_for_dead();
    pause_for(poll_interval);
  }
}

std::vector<std::uint32_t> Job::ranks_running(std::uint64_t run, bool look) {
  if (look) look_for_dead();
  std::vector<std::uint32_t> running;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    const RankSlot& slot = of(rank);
    if (slot.runs_ended.load() < run && slot.is_lost.load() == 0 && slot.has_left.load() == 0)
      running.push_back(rank);
  }
  return running;
}

void mark_lost(const std::string& job, std::uint32_t rank) {
  unlink_with_prefix(fmt::format("{}{}.{}.", prefix, job, rank));
  const auto mapping = open_control(control_name(job));
  if (!mapping || rank >= block_of(*mapping).ranks) return;
  block_of(*mapping).slot(rank).is_lost.store(1);
  unlink_if_last(block_of(*mapping), control_name(job));
}

std::uint32_t remove_stale_jobs() {
  std::uint32_t removed = 0;
  std::map<std::string, bool> is_running;  // by job name: whether a process of the job is alive
  for (const std::string& name : object_names()) {
    const std::string job = job_of(name);
    if (is_running.contains(job)) continue;
    const auto control = open_control(control_name(job));
    // A control block is created before all other objects of its job and removed after them. Objects without
    // a readable control block are therefore left from a dead job, unless the job is just starting and has
    // not stored the block's magic number yet.
    struct stat status{};
    const bool has_control = stat(("/dev/shm" + control_name(job)).c_str(), &status) == 0;
    const bool is_starting = has_control && !control && status.st_mtime + 60 > time(nullptr);
    is_running[job] = is_starting || (control && anyone_alive(block_of(*control)));
  }
  for (const auto& [job, running] : is_running) {
    if (running) continue;
    unlink_with_prefix(fmt::format("{}{}.", prefix, job));
    ++removed;
  }
  return removed;
}

}  // namespace loch::fabric::shm
