// Hands out seeds to threads, in order, and collects what they find.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "common/cli/fuzz.h"

namespace loch::cli {

class Campaign {
 public:
  // Both outlive it.
  Campaign(const FuzzOptions& options, const kv::Module& module);

  // Until all seeds are done, or something is found (unless it keeps going, or looks for one finding
  // of each hole of a variant that has some), or the time is over, or an interrupt. Every seed before
  // the last one that was handed out has been run.
  void run();

  [[nodiscard]] double seconds() const;
  // By seed; the first alone where that ends it.
  [[nodiscard]] std::vector<FuzzFinding> findings() const;
  [[nodiscard]] std::uint64_t done() const { return done_; }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }

 private:
  using Clock = std::chrono::steady_clock;
  void work();
  [[nodiscard]] bool is_over() const;
  void say(const FuzzFinding& finding);
  [[nodiscard]] std::string line() const;

  const FuzzOptions& options_;
  const kv::Module& module_;
  const bool ends_at_first_;
  Clock::time_point started_;
  std::atomic<std::uint64_t> next_{0}, done_{0}, found_{0}, events_{0}, operations_{0};
  std::mutex mutex_;
  std::vector<FuzzFinding> findings_;
};

}  // namespace loch::cli
