// Finds by trying the limit of outstanding work requests with which the workers of a node complete the most
// requests (SMART, ASPLOS 2024, section 4.2; the numbers are those of its artifact).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include "common/base/units.h"

namespace loch::fabric {

class Tuner {
 public:
  // the limits that are tried; the last one is so high that it limits nothing
  static constexpr std::array<std::uint32_t, 6> candidates{4, 6, 8, 10, 12, 256};
  // for how many samples (times of trying a limit) the best limit is kept before the limits are tried again
  static constexpr int kept_samples = 60;
  // the last limit is chosen even if its rate is lower than the best other one's, by this factor at most
  static constexpr double preference = 1.05;

  // `fixed`: the limit; 0: it is to be found by trying. `sample`: for how many ns each limit is tried.
  Tuner(std::uint32_t fixed, Nanos sample)
      : sample_(sample), is_fixed_(fixed > 0), limit_(fixed > 0 ? fixed : candidates.front()) {}

  // Returns a counter in which one worker, and no other thread, counts its completed work requests.
  [[nodiscard]] std::atomic<std::uint64_t>* add_worker() {
    const std::lock_guard lock(mutex_);
    return &completed_.emplace_back(0);
  }
  // The present limit, which holds for each worker of the node.
  [[nodiscard]] std::uint32_t limit() const { return limit_.load(std::memory_order_relaxed); }
  // To be called now and then by workers, such as at completions: ends the present sample (time of trying a
  // limit) when it is over.
  void look(Nanos now) {
    if (is_fixed_ || now < until_.load(std::memory_order_relaxed)) return;
    if (!mutex_.try_lock()) return;  // another worker is just ending the sample
    const std::lock_guard lock(mutex_, std::adopt_lock);
    if (now >= until_.load(std::memory_order_relaxed)) next(now);
  }

 private:
  void next(Nanos now) {
    std::uint64_t count = 0;
    for (const std::atomic<std::uint64_t>& one : completed_) count += one.load(std::memory_order_relaxed);
    // the trial of one limit has ended, or the first trial begins
    if (trial_ < candidates.size()) {
      if (since_ >= 0)
        rates_[trial_++] = static_cast<double>(count - before_) / static_cast<double>(now - since_);
    } else {
      trial_ = 0;  // the best limit was kept for long enough: the limits are tried again
    }
    const bool is_done = trial_ == candidates.size();
    limit_.store(is_done ? best() : candidates[trial_], std::memory_order_relaxed);
    before_ = count;
    since_ = now;
    until_.store(now + sample_ * (is_done ? kept_samples : 1), std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t best() const {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < candidates.size(); ++i) {
      if (rates_[i] > rates_[best]) best = i;
    }
    return rates_.back() * preference >= rates_[best] ? candidates.back() : candidates[best];
  }

  const Nanos sample_;
  const bool is_fixed_;
  std::atomic<std::uint32_t> limit_;
  // when the present sample (the time for which one limit is tried) ends
  std::atomic<Nanos> until_ = 0;
  std::mutex mutex_;  // guards the members below
  std::deque<std::atomic<std::uint64_t>> completed_;
  std::array<double, candidates.size()> rates_{};
  // index of the limit that is being tried; candidates.size(): the best one is kept
  std::size_t trial_ = 0;
  // when the present sample began; -1: no sample has begun
  Nanos since_ = -1;
  // number of completed requests when the present sample (time of trying a limit) began
  std::uint64_t before_ = 0;
};

}  // namespace loch::fabric
