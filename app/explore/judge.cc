// Judges the histories and the final states of executions.
#include "app/explore/judge.h"

namespace loch::explore {

Judgement Judge::check(const Run& run) const {
  const std::vector<check::Operation> operations = run.history();
  const check::CheckReport report = check::check_operations(operations, options_);
  Judgement judgement;
  for (const check::KeyReport& key : report.failures) {
    judgement.reasons.push_back("key " + key.key + ": " + key.reason);
    judgement.sub_history.insert(judgement.sub_history.end(), key.sub_history.begin(), key.sub_history.end());
  }
  return judgement;
}

Judgement Judge::history(const Run& run) {
  if (std::string stop = run.stopped(); !stop.empty()) return {{std::move(stop)}, {}};
  const Hash id = run.history_id();
  if (sound_.contains(id)) return {};
  Judgement judgement = check(run);
  if (judgement.reasons.empty()) sound_.insert(id);
  return judgement;
}

Judgement Judge::end(const Run& run, std::vector<std::string> wrong) {
  Judgement judgement = history(run);
  judgement.reasons.insert(judgement.reasons.end(), wrong.begin(), wrong.end());
  return judgement;
}

}  // namespace loch::explore
