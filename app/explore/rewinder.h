// A run that can be taken back to where it was: by its saved memory (Arena), or, where there is no arena, by
// making the moves again from the beginning.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/explore/arena.h"
#include "app/explore/run.h"

namespace loch::explore {

class Rewinder {
 public:
  // At the beginning. `saves` false: moves are made again even where memory could be saved. Both outlive it.
  Rewinder(const Plan& plan, const HashSet* idle, bool saves);
  ~Rewinder();
  Rewinder(const Rewinder&) = delete;
  Rewinder& operator=(const Rewinder&) = delete;

  [[nodiscard]] bool saves() const { return arena_ != nullptr; }
  // Callers may only read the run; apply() and end() of this class change it.
  [[nodiscard]] Run& run() { return *run_; }
  Footprint apply(const Move& move);
  [[nodiscard]] std::vector<std::string> end();

  // Empty where moves are made again.
  [[nodiscard]] Arena::Saved save();
  void restore(const Arena::Saved& saved) { arena_->restore(saved); }
  // To the end of `path`, from the beginning; the chains there are known.
  void repeat(const std::vector<Move>& path, const std::vector<Hash>& chains);
  [[nodiscard]] std::uint64_t repeated() const { return repeated_; }  // moves

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
