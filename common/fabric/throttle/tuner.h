// Finds the limit of outstanding work requests with which the workers of a node complete the most, by trying
// a few one after another (SMART, ASPLOS 2024, section 4.2; the numbers are those of its artifact).
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
  // limits that are tried; the last is as good as none
  static constexpr std::array<std::uint32_t, 6> candidates{4, 6, 8, 10, 12, 256};
  static constexpr int kept_samples =
      60;  // for how many samples the best limit is kept before the next trial
  // the last candidate is taken if it is at most so much worse than the best of the others
  static constexpr double preference = 1.05;

  // `fixed`: the limit, if it is not to be found by trying; 0: it is. `sample`: how long each is tried, in
  // ns.
  Tuner(std::uint32_t fixed, Nanos sample)
      : sample_(sample), is_fixed_(fixed > 0), limit_(fixed > 0 ? fixed : candidates.front()) {}

  // A place in which one worker, and no other thread, counts its completed work requests.
  [[nodiscard]] std::atomic<std::uint64_t>* add_worker() {
    const std::lock_guard lock(mutex_);
    return &completed_.emplace_back(0);
  }
  // The present limit of each worker.
  [[nodiscard]] std::uint32_t limit() const { return limit_.load(std::memory_order_relaxed); }
  // To be called now and then by workers, such as at completions: ends the present sample when it is over.
  void look(Nanos now) {
    if (is_fixed_ || now < until_.load(std::memory_order_relaxed)) return;
    if (!mutex_.try_lock()) return;  // another worker does it
    const std::lock_guard lock(mutex_, std::adopt_lock);
    if (now >= until_.load(std::memory_order_relaxed)) next(now);
  }

 private:
  void next(Nanos now) {
    std::uint64_t count = 0;
    for (const std::atomic<std::uint64_t>& one : completed_) count += one.load(std::memory_order_relaxed);
    if (trial_ < candidates.size()) {  // the sample of a trial is over, or the first one begins
      if (since_ >= 0)
        rates_[trial_++] = static_cast<double>(count - before_) / static_cast<double>(now - since_);
    } else {
      trial_ = 0;  // the best limit was kept for long enough
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
  std::atomic<Nanos> until_ = 0;  // when the present sample ends
  std::mutex mutex_;              // guards the members below
  std::deque<std::atomic<std::uint64_t>> completed_;
  std::array<double, candidates.size()> rates_{};
  std::size_t trial_ = 0;     // index of the candidate that is tried; all were: the best one is kept
  Nanos since_ = -1;          // when the present sample began; -1: none has
  std::uint64_t before_ = 0;  // completions before it
};

}  // namespace loch::fabric
