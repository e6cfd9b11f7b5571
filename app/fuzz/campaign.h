// Hands out seeds to threads, in order, and collects what they find.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

class Campaign {
 public:
  // `options` and `module` outlive the campaign.
  Campaign(const FuzzOptions& options, const kv::Module& module);

  // Until all seeds are done, or something is found (unless it keeps going, or looks for one finding
  // of each hole of a variant that has some), or the time is over, or an interrupt. Every seed before
  // the last one that was handed out has been run.
  void run();

  [[nodiscard]] double seconds() const;
  // The findings by seed; only the first one if it ends the campaign.
  [[nodiscard]] std::vector<FuzzFinding> findings() const;
  [[nodiscard]] std::uint64_t done() const { return done_; }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }
  // What failed in all seeds and what came of it, by kind.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& events_by_kind() const { return by_kind_; }
  // How one probe was reached.
  struct Reached {
    std::uint64_t seeds = 0, times = 0, first_seed = 0;
  };
  // By name; those of the protocol that no seed reached are there too.
  [[nodiscard]] std::map<std::string, Reached> coverage() const;

 private:
  using Clock = std::chrono::steady_clock;
  void work();
  [[nodiscard]] bool is_over() const;
  void say(const FuzzFinding& finding);
  void count(const FuzzFinding& finding);
  [[nodiscard]] bool is_covered() const;
  [[nodiscard]] std::string line() const;

  const FuzzOptions& options_;
  const kv::Module& module_;
  const bool ends_at_first_;
  Clock::time_point started_;
  std::atomic<std::uint64_t> next_{0}, done_{0}, found_{0}, events_{0}, operations_{0};
  std::mutex mutex_;
  std::vector<FuzzFinding> findings_;
  std::map<std::string, std::uint64_t> by_kind_;
  std::vector<Reached> reached_;  // by place in probe_sites()
  std::atomic<bool> is_covered_{false};
};

// Whether the probe marks code that the module's default variant runs.
[[nodiscard]] bool is_probe_of(const kv::Module& module, std::string_view probe);

}  // namespace loch::fuzz
