// A run that can be taken back to an earlier state: by restoring its memory (Arena), or without an arena by
// repeating its moves from the beginning.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/explore/arena.h"
#include "app/explore/run.h"

namespace loch::explore {

class Rewinder {
 public:
  // Starts a run of the plan. `idle`: the timers that are known to change nothing (Run::set_idle_alarms).
  // `saves` false: always rewind by repeating moves. `plan` and `idle` have to outlive this object.
  Rewinder(const Plan& plan, const HashSet* idle, bool saves);
  ~Rewinder();
  Rewinder(const Rewinder&) = delete;
  Rewinder& operator=(const Rewinder&) = delete;

  [[nodiscard]] bool saves() const { return arena_ != nullptr; }
  // The run, for reading only; change it by apply() and end() of this class.
  [[nodiscard]] Run& run() { return *run_; }
  Footprint apply(const Move& move);
  [[nodiscard]] std::vector<std::string> end();

  // The content of the run's memory, for restore(); empty if there is no arena.
  [[nodiscard]] Arena::Saved save();
  void restore(const Arena::Saved& saved) { arena_->restore(saved); }
  // Starts the run again and makes the moves of `path`. `chains`: the hashes that were recorded when `path`
  // was first made and that identify the state at its end.
  void repeat(const std::vector<Move>& path, const std::vector<Hash>& chains);
  [[nodiscard]] std::uint64_t repeated() const { return repeated_; }  // number of moves repeated so far

 private:
  void make_run();
  void drop_run();

  const Plan& plan_;
  const HashSet* idle_;
  std::unique_ptr<Arena> arena_;
  Run* run_ = nullptr;
  std::uint64_t repeated_ = 0;
};

}  // namespace loch::explore
