#include "tests/model/register_set.h"

#include <algorithm>

namespace loch::model {
namespace {

// Bits 0-5: the value. 6 bits a client from 6: 0 not yet, 1 done, 2 + v read v (or found nothing).
// 4 bits a client from 32: aborted operations, by index, that may still take effect.
constexpr int zombie_bit = 32;
constexpr int zombies_each = 4;

Value value_of(std::uint64_t c) { return static_cast<Value>(c & 63); }
std::uint64_t with_value(std::uint64_t c, Value v) { return (c & ~63ULL) | v; }
unsigned effect_of(std::uint64_t c, int client) { return static_cast<unsigned>(c >> (6 + 6 * client)) & 63; }
std::uint64_t with_effect(std::uint64_t c, int client, std::uint64_t effect) {
  const int shift = 6 + 6 * client;
  return (c & ~(63ULL << shift)) | (effect << shift);
}
constexpr unsigned not_yet = 0;
constexpr unsigned done = 1;
unsigned answered(Value v) { return 2U + v; }

bool on_register(const Op& op) {
  return op.type == OpType::get || op.type == OpType::put || op.type == OpType::remove;
}

}  // namespace

void RegisterSet::close_over(const UnderWay& under_way, bool delete_needs_value,
                             const std::vector<std::vector<Op>>& programs, Key key) {
  std::vector<std::uint64_t> todo = configurations_;
  const auto reach = [&](std::uint64_t c) {
    const auto at = std::ranges::lower_bound(configurations_, c);
    if (at != configurations_.end() && *at == c) return;
    configurations_.insert(at, c);
    todo.push_back(c);
  };
  while (!todo.empty()) {
    const std::uint64_t c = todo.back();
    todo.pop_back();
    for (int client = 0; client < client_max; ++client) {
      const Op* const op = under_way[client];
      if (op != nullptr && op->key == key && on_register(*op) && effect_of(c, client) == not_yet) {
        if (op->type == OpType::put) {
          reach(with_effect(with_value(c, op->value), client, done));
        } else if (op->type == OpType::get) {
          reach(with_effect(c, client, answered(value_of(c))));
        } else {
          if (value_of(c) != 0 || !delete_needs_value) reach(with_effect(with_value(c, 0), client, done));
          if (value_of(c) == 0) reach(with_effect(c, client, answered(0)));
        }
      }
      for (int i = 0; i < zombies_each; ++i) {
        const std::uint64_t bit = 1ULL << (zombie_bit + zombies_each * client + i);
        if ((c & bit) == 0) continue;
        const Op& zombie = programs[static_cast<std::size_t>(client)][static_cast<std::size_t>(i)];
        reach(with_value(c & ~bit, zombie.type == OpType::put ? zombie.value : Value{0}));
      }
    }
  }
}

bool RegisterSet::answer(const UnderWay& under_way, int client, int op_index, Answer answer, Aborts aborts,
                         bool delete_needs_value, const std::vector<std::vector<Op>>& programs, Key key) {
  close_over(under_way, delete_needs_value, programs, key);
  const bool is_get = under_way[client]->type == OpType::get;
  std::vector<std::uint64_t> kept;
  for (const std::uint64_t c : configurations_) {
    const unsigned effect = effect_of(c, client);
    const std::uint64_t ended = with_effect(c, client, not_yet);
    switch (answer.type) {
      case Answer::Type::aborted:
        if (is_get || (effect == not_yet && aborts == Aborts::have_no_effect)) {
          kept.push_back(ended);
        } else if (aborts == Aborts::may_take_effect_later) {
          const std::uint64_t bit = 1ULL << (zombie_bit + zombies_each * client + op_index);
          kept.push_back(effect == not_yet ? ended | bit : ended);
        }
        break;
      case Answer::Type::ok:
        if (effect == done) kept.push_back(ended);
        break;
      case Answer::Type::not_found:
        if (effect == answered(0)) kept.push_back(ended);
        break;
      case Answer::Type::value:
        if (effect == answered(answer.value)) kept.push_back(ended);
        break;
    }
  }
  std::ranges::sort(kept);
  kept.erase(std::ranges::unique(kept).begin(), kept.end());
  configurations_ = std::move(kept);
  return !configurations_.empty();
}

}  // namespace loch::model
