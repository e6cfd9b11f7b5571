// Stores the operations of a history compactly and groups them by key.
#include "common/check/history_table.h"

#include <algorithm>
#include <tuple>

#include "common/base/check.h"

namespace loch::check {
namespace {

// A durable writer records a PUT, DELETE or INSERT before it begins, in a line without return time. Removes
// such a line if the finished operation has a line too, and duplicates of such a line if it never finished.
void drop_superseded(std::vector<KeyOp>* operations) {
  const auto identity = [](const KeyOp& op) { return std::tie(op.invoke_ns, op.client, op.kind, op.value); };
  const auto heard = [](const KeyOp& op) { return op.return_ns != forever; };
  std::ranges::sort(*operations, [&](const KeyOp& a, const KeyOp& b) {
    return std::tuple(identity(a), !heard(a), a.return_ns, a.outcome) <
           std::tuple(identity(b), !heard(b), b.return_ns, b.outcome);
  });
  const auto superseded = [&](const KeyOp& before, const KeyOp& op) {
    return op.kind != OpKind::get && !heard(op) && identity(before) == identity(op);
  };
  const auto rest = std::unique(operations->begin(), operations->end(), superseded);
  operations->erase(rest, operations->end());
}

}  // namespace

std::uint32_t Names::number(std::string_view name) {
  if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
  const std::string& kept = names_.emplace_back(name);
  const auto number = static_cast<std::uint32_t>(names_.size() - 1);
  numbers_.emplace(kept, number);
  return number;
}

HistoryTable::HistoryTable() { LOCH_CHECK_EQ(values_.number(preloaded_value), init_value); }

void HistoryTable::add(const OperationView& operation) {
  Entry entry;
  if (operation.kind != OpKind::lost) entry.key = keys_.number(operation.key);
  entry.op.invoke_ns = operation.invoke_ns;
  entry.op.return_ns = operation.return_ns.value_or(forever);
  entry.op.client = operation.client;
  entry.op.kind = operation.kind;
  entry.op.outcome = operation.outcome;
  if (operation.value) entry.op.value = values_.number(*operation.value);
  if (operation.kind == OpKind::lost) {
    entry.op.value = values_.number(operation.key);
    losses_.push_back(entry.op);
    return;
  }
  all_.push_back(entry);
}

void HistoryTable::finish() {
  first_.assign(keys_.size() + 1, 0);
  for (const Entry& entry : all_) ++first_[entry.key + 1];
  for (std::size_t key = 0; key < keys_.size(); ++key) first_[key + 1] += first_[key];
  grouped_.resize(all_.size());
  std::vector<std::uint64_t> at(first_.begin(), first_.end() - 1);
  for (const Entry& entry : all_) grouped_[at[entry.key]++] = entry.op;
}

KeyHistory HistoryTable::key_history(std::uint32_t key, Start otherwise) const {
  KeyHistory history{key, otherwise, {}};
  for (std::uint64_t i = first_[key]; i < first_[key + 1]; ++i) {
    const KeyOp& op = grouped_[i];
    if (op.client != preload_client) {
      history.operations.push_back(op);
    } else if (op.kind == OpKind::remove) {
      history.start = Start::absent;
    } else if (op.value == init_value) {
      history.start = Start::present;
    } else {
      // a preload under a name other than "init" is treated as an ordinary PUT
      history.operations.push_back(op);
    }
  }
  drop_superseded(&history.operations);
  history.operations.insert(history.operations.end(), losses_.begin(), losses_.end());
  return history;
}

Operation HistoryTable::restore(std::uint32_t key, const KeyOp& op) const {
  Operation result{op.client, op.kind, op.outcome, keys_[key], std::nullopt, op.invoke_ns, std::nullopt};
  if (op.kind == OpKind::lost)
    result.key = values_[op.value];
  else if (op.value != none)
    result.value = values_[op.value];
  if (op.return_ns != forever) result.return_ns = op.return_ns;
  return result;
}

}  // namespace loch::check
