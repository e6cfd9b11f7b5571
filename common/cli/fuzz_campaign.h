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
  Campaign(const FuzzOptions& options, const kv::Module& module) : options_(options), module_(module) {}

  // Until all seeds are done, or something is found (unless it keeps going), or the time is over, or
  // an interrupt. Every seed before the last one that was handed out has been run.
  void run();

  [[nodiscard]] double seconds() const;
  // By seed; the first alone unless it keeps going.
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
  Clock::time_point started_;
  std::atomic<std::uint64_t> next_{0}, done_{0}, found_{0}, events_{0}, operations_{0};
  std::mutex mutex_;
  std::vector<FuzzFinding> findings_;
};

}  // namespace loch::cli
