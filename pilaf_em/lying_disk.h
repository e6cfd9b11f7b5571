// A simulated disk for tests of the log. It keeps unsynced writes apart from the platter's content, which
// survives a power failure. When power fails it draws which unsynced writes reached the platter: none, all,
// any subset in any order, single sectors of a write, or a prefix.
//
// Every call that changes the disk has a number, counted from 1; faults are injected at numbered calls.
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
  // The faults to inject. A number names the call at which the fault happens (0: never); a bool holds for all
  // calls.
  struct Plan {
    std::uint64_t power_fails_at = 0;  // power fails during this call; calls after it fail until restart()
    std::uint64_t sync_fails_at = 0;   // the first sync among the calls from this one on fails
    std::uint64_t full_at = 0;      // from this call on, each write takes a random part of its bytes or fails
    bool writes_are_short = false;  // true: a write may take fewer bytes than requested, but at least one
    bool reads_fail = false;
    bool ignores_sync = false;    // true: a sync does nothing, as if the log never called it
    bool hides_failures = false;  // true: failures are reported as success, as if the log ignored them
  };

  explicit LyingDisk(std::uint64_t seed) : rng_(seed) {}

  [[nodiscard]] Result<std::unique_ptr<LogFile>> open(const std::string& path) override;
  [[nodiscard]] Result<> sync_name(const std::string& path) override;

  Plan plan;
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] bool is_off() const { return is_off_; }

  // Kills the process: its open files become invalid. Its writes stay in the page cache, except data of a
  // failed sync, which the kernel may have dropped.
  void kill();
  // Fails the power if it has not failed yet, and restores it: from then on, files have the platter's
  // content. Clears the plan.
  void restart();
  // The file's content as a process reads it, of which a part may not be on the platter yet.
  [[nodiscard]] const std::vector<std::byte>& contents(const std::string& path) { return files_[path].cache; }
  void set_contents(const std::string& path, std::vector<std::byte> bytes);

 private:
  class Handle;
  struct Change {
    bool is_truncation = false;
    std::uint64_t at = 0;  // offset of a write; new size for a truncation
    std::vector<std::byte> bytes;
  };
  struct File {
    std::vector<std::byte> cache, platter;
    std::vector<Change> unsynced;
    bool is_named = false;  // whether the file's directory entry is on the platter
  };
  // Counts a call, and returns whether power fails during it.
  [[nodiscard]] bool fails_here();
  void change(File& file, Change change);
  static void apply(const Change& change, std::vector<std::byte>& to);
  void apply_part(const Change& change, std::uint64_t sector, std::vector<std::byte>& to);
  // Writes all unsynced changes to the platter, as a successful sync does.
  void bring(File& file);
  // Writes a random selection of the unsynced changes to the platter.
  void settle(File& file);
  [[nodiscard]] std::uint64_t below(std::uint64_t n) { return rng_.below(n); }

  Rng rng_;
  std::map<std::string, File> files_;
  std::uint64_t calls_ = 0;
  std::uint64_t incarnations_ = 0;  // incarnations of the process; files opened by an earlier one are invalid
  bool is_off_ = false;
};

}  // namespace loch::pilaf::testing
