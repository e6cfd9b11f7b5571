// Decides whether an execution violates a property: by its history, checked against the consistency model,
// and by the checks at its end.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "app/explore/run.h"
#include "common/check/linearizable.h"

namespace loch::explore {

struct Judgement {
  std::vector<std::string> reasons;  // violated properties, one line each; empty: none
  std::vector<check::Operation> sub_history;
};

// Judges executions, and caches its results for histories that it has seen.
class Judge {
 public:
  explicit Judge(const check::CheckOptions& options) : options_(options) {}
  // Judges the run's operations so far. Operations under way may or may not take effect.
  [[nodiscard]] Judgement history(const Run& run);
  // Judges a run that has ended; `wrong` lists the violations that Run::end() found.
  [[nodiscard]] Judgement end(const Run& run, std::vector<std::string> wrong);

 private:
  [[nodiscard]] Judgement check(const Run& run) const;
  check::CheckOptions options_;
  HashSet sound_;
};

}  // namespace loch::explore
