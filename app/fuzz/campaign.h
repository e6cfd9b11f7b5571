// A fuzz campaign: hands out seeds to threads in order, and collects their findings.
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
  // `options` and `module` have to outlive the campaign.
  Campaign(const FuzzOptions& options, const kv::Module& module);

  // Runs seeds until all are done, the time limit passes, an interrupt comes, or (options.until_covered)
  // every probe (a mark of a rare branch in the code) has been passed. Also ends at the first finding, unless
  // options.keep_going is set or the variant has several holes (known flaws of the published design) to find.
  // Every seed below the largest one that was started has then been run.
  void run();

  [[nodiscard]] double seconds() const;
  // The findings, ordered by seed; only the first one if a finding ends the campaign.
  [[nodiscard]] std::vector<FuzzFinding> findings() const;
  [[nodiscard]] std::uint64_t done() const { return done_; }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }
  // Number of injected failures and of their effects, by kind, over all seeds.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& events_by_kind() const { return by_kind_; }
  // How often the runs passed one probe, which marks a rare branch of the code.
  struct Reached {
    std::uint64_t seeds = 0, times = 0, first_seed = 0;
  };
  // Number of passes by the name of the probe (mark of a rare branch in the code); includes the protocol's
  // probes that no seed passed.
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
  std::vector<Reached> reached_;  // one element for each element of probe_sites()
  std::atomic<bool> is_covered_{false};
};

// Whether the probe (mark of a rare branch) is in code that the module's default variant runs. With
// `is_remote`: whether it is in code that only data on memory nodes bring into use (PROTOCOL.placement
// remote).
[[nodiscard]] bool is_probe_of(const kv::Module& module, std::string_view probe, bool is_remote = false);

}  // namespace loch::fuzz
