// Hands out the numbers of the records that a run inserts. If `first` records exist at the start, process r
// of n inserts the records first + r, first + r + n, …; this process's clients may draw an inserted record
// once its insert and all earlier inserts of the process are acknowledged.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>

namespace loch::workloads {

// The record with which client worker `number` of `workers` begins under Distribution::sequential.
[[nodiscard]] constexpr std::uint64_t shape_place(std::uint64_t number, std::uint64_t workers,
                                                  std::uint64_t records) {
  return workers == 0 ? 0 : records / workers * number;
}

// Tracks this process's inserts; all its client threads may call it.
class InsertLedger {
 public:
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  InsertLedger(std::uint64_t first, std::uint64_t most, std::uint32_t rank, std::uint32_t ranks)
      : first_(first), most_(most), rank_(rank), ranks_(ranks) {}

  // Returns a record number that was never handed out, or `none` if the table has no room for more records.
  std::uint64_t take() {
    const std::lock_guard lock(mutex_);
    const std::uint64_t number = first_ + rank_ + taken_ * ranks_;
    if (number >= most_) return none;
    ++taken_;
    return number;
  }
  void acknowledge(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    early_.insert((number - first_ - rank_) / ranks_);
    std::uint64_t frontier = acknowledged_.load(std::memory_order_relaxed);
    while (early_.erase(frontier) != 0) ++frontier;
    acknowledged_.store(frontier, std::memory_order_release);
  }
  // How many of this process's inserts, counted from the first one without a gap, are acknowledged.
  [[nodiscard]] std::uint64_t acknowledged() const { return acknowledged_.load(std::memory_order_acquire); }
  // Maps a draw from [0, first + acknowledged()) to the number of a record that exists.
  [[nodiscard]] std::uint64_t record(std::uint64_t draw) const {
    return draw < first_ ? draw : first_ + rank_ + (draw - first_) * ranks_;
  }

 private:
  std::uint64_t first_, most_, rank_, ranks_;
  std::mutex mutex_;
  std::uint64_t taken_ = 0;
  std::set<std::uint64_t> early_;  // inserts that are acknowledged while an earlier insert is not
  std::atomic<std::uint64_t> acknowledged_{0};
};

}  // namespace loch::workloads
