// A disk of memory that does to a log what disks do at the worst moment, for tests. Between two syncs it
// keeps what was written apart from what would outlive a power failure, and when power fails it draws what of
// it the platter got: nothing, all, any subset in any order, sectors of one write without others, a
// beginning.
//
// Every call that changes something has a number, from 1; at each of them something can be made to go wrong.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "pilaf_em/log_file.h"

namespace loch::pilaf::testing {

class LyingDisk final : public LogDisk {
 public:
  // The faults to inject, by the number of the call at which they happen; 0: never.
  struct Plan {
    std::uint64_t power_fails_at = 0;  // during this call; every later one fails until restart()
    std::uint64_t sync_fails_at = 0;   // the first sync from this call on
    std::uint64_t full_at = 0;         // writes from this call on take a part, then nothing
    bool writes_are_short = false;     // every write may be short, but writes at least one byte
    bool reads_fail = false;
    bool ignores_sync = false;    // a sync does nothing, as if the log never called it
    bool hides_failures = false;  // failures are not reported to the caller, as if the log ignored them
  };

  explicit LyingDisk(std::uint64_t seed) : rng_(seed) {}

  [[nodiscard]] Result<std::unique_ptr<LogFile>> open(const std::string& path) override;
  [[nodiscard]] Result<> sync_name(const std::string& path) override;

  Plan plan;
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] bool is_off() const { return is_off_; }

  // The process dies; files that it had open are void. What it wrote is in the kernel's memory, unless that
  // has thrown away what it counts as written.
  void kill();
  // Power fails, if it has not yet, and is back: what is read now is what the platter has. Clears the plan.
  void restart();
  // The file as a process reads it. Changes (flipped bits) also reach the platter.
  [[nodiscard]] const std::vector<std::byte>& contents(const std::string& path) { return files_[path].cache; }
  void set_contents(const std::string& path, std::vector<std::byte> bytes);

 private:
  class Handle;
  struct Change {
    bool is_truncation = false;
    std::uint64_t at = 0;  // truncation: how many bytes stay
    std::vector<std::byte> bytes;
  };
  struct File {
    std::vector<std::byte> cache, platter;
    std::vector<Change> unsynced;
    bool is_named = false;  // the file's name is on the disk
  };
  // The number of a call; power may fail with it.
  [[nodiscard]] bool fails_here();
  void change(File& file, Change change);
  static void apply(const Change& change, std::vector<std::byte>& to);
  void apply_part(const Change& change, std::uint64_t sector, std::vector<std::byte>& to);
  // A sync that goes well.
  void bring(File& file);
  // Brings to the platter what chance will of what was not synced.
  void settle(File& file);
  [[nodiscard]] std::uint64_t below(std::uint64_t n) { return rng_.below(n); }

  Rng rng_;
  std::map<std::string, File> files_;
  std::uint64_t calls_ = 0;
  std::uint64_t incarnations_ = 0;  // of processes, so that a dead one's files are void
  bool is_off_ = false;
};

}  // namespace loch::pilaf::testing
