// What is wrong with an execution: its history against the model, and what its end found.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "app/explore/run.h"
#include "common/check/linearizable.h"

namespace loch::explore {

struct Judgement {
  std::vector<std::string> reasons;  // empty: nothing is wrong
  std::vector<check::Operation> sub_history;
};

// Remembers histories that it has judged.
class Judge {
 public:
  explicit Judge(const check::CheckOptions& options) : options_(options) {}
  // Of the operations so far: those under way may or may not take effect.
  [[nodiscard]] Judgement history(const Run& run);
  // Of a run that has ended, whose end found `wrong` beside the history.
  [[nodiscard]] Judgement end(const Run& run, std::vector<std::string> wrong);

 private:
  [[nodiscard]] Judgement check(const Run& run) const;
  check::CheckOptions options_;
  HashSet sound_;
};

}  // namespace loch::explore
