// Takes an explored run back to an earlier state.
#include "app/explore/rewinder.h"

namespace loch::explore {

Rewinder::Rewinder(const Plan& plan, const HashSet* idle, bool saves)
    : plan_(plan), idle_(idle), arena_(saves ? Arena::make() : nullptr) {
  make_run();
  if (arena_ != nullptr) arena_->mark();
}

Rewinder::~Rewinder() { drop_run(); }

void Rewinder::make_run() {
  const Arena::Use use(arena_.get());
  run_ = new Run(plan_);
  run_->set_idle_alarms(idle_);
  static_cast<void>(run_->id());  // computes the hashes of memory once, so that mark() includes them
}

// Forgets the run. A run in the arena is not destroyed, because the arena's memory is reset as a whole.
void Rewinder::drop_run() {
  if (arena_ == nullptr) delete run_;
  run_ = nullptr;
}

Footprint Rewinder::apply(const Move& move) {
  const Arena::Use use(arena_.get());
  return run_->apply(move);
}

std::vector<std::string> Rewinder::end() {
  std::vector<std::string> copy;
  const Arena::Use use(arena_.get());
  const std::vector<std::string> wrong = run_->end();
  const Arena::Pause pause;
  copy = wrong;
  return copy;
}

Arena::Saved Rewinder::save() { return arena_ == nullptr ? Arena::Saved{} : arena_->save(); }

void Rewinder::repeat(const std::vector<Move>& path, const std::vector<Hash>& chains) {
  repeated_ += path.size();
  if (arena_ != nullptr) {
    arena_->reset();
  } else {
    drop_run();
    make_run();
  }
  const Arena::Use use(arena_.get());
  run_->set_hashing(false);
  for (const Move& move : path) run_->apply(move);
  run_->set_hashing(true);
  run_->set_chains(chains);
}

}  // namespace loch::explore
