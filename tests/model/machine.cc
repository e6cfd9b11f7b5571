#include "tests/model/machine.h"

#include <fmt/format.h>

#include "common/base/check.h"

namespace loch::model {
namespace {

constexpr Value probe_value = 30;
constexpr std::string_view key_names = "KXYZ";

std::string_view spelled(OpType type) {
  switch (type) {
    case OpType::get:
      return "GET";
    case OpType::put:
      return "PUT";
    case OpType::remove:
      return "DELETE";
    case OpType::migrate:
      return "MIGRATE";
    case OpType::break_lease:
      return "BREAK";
    case OpType::scrub:
      return "SCRUB";
  }
  return "?";
}

// The entries that an operation may make: its own, and the copy of a MIGRATE that it runs inside.
int entries_made(const Op& op, const Rules& rules) {
  const bool writes = op.type == OpType::put || op.type == OpType::remove;
  if (op.type == OpType::migrate) return 1;
  if (!writes) return 0;
  return rules.when_full == WhenFull::abort ? 1 : 3;
}

}  // namespace

Machine::Machine(const Rules& rules, const Scenario& scenario, Aborts aborts)
    : rules_(rules), scenario_(scenario), aborts_(aborts), programs_(scenario.clients) {
  const Op get{OpType::get};
  const Op put{OpType::put, 0, probe_value};
  const auto scrub = [](Key key) { return Op{OpType::scrub, key}; };
  if (scenario.after == After::probe) programs_.push_back({get, put, get});
  if (scenario.after == After::scrub) programs_.push_back({scrub(0), scrub(1), get, put});
  LOCH_CHECK_LE(programs_.size(), static_cast<std::size_t>(client_max));
  entries_ = static_cast<int>(scenario.initial.size());
  for (std::size_t c = 0; c < programs_.size(); ++c) {
    first_entry_[c] = entries_;
    for (const Op& op : programs_[c]) entries_ += entries_made(op, rules);
  }
  first_entry_[programs_.size()] = entries_;
  LOCH_CHECK_LE(entries_, entry_max);
}

World Machine::initial() const {
  World world;
  int id = 0;
  for (const Placed& placed : scenario_.initial) {
    Entry& entry = world.state.entries[static_cast<std::size_t>(id)];
    entry.key = placed.key;
    entry.value = placed.value;
    entry.valid = 1;
    world.state.slots[placed.slot] = Word::occupied(id++, false);
    world.registers[placed.key] = RegisterSet(placed.value);
  }
  return world;
}

std::pair<int, int> Machine::entries_of(const State& state, int client) const {
  return {first_entry_[client], first_entry_[client] + state.clients[client].allocated};
}

StepResult Machine::step(World* world, int client, std::string* text) {
  world_ = world;
  client_ = client;
  text_ = text;
  result_ = {};
  op_ = programs_[static_cast<std::size_t>(client)][me().op];
  me().begun = 1;
  switch (op_.type) {
    case OpType::get:
      step_get();
      break;
    case OpType::put:
      step_put();
      break;
    case OpType::remove:
      if (rules_.delete_by == DeleteBy::clear_each) {
        step_clear_each();
      } else if (rules_.delete_by == DeleteBy::single_cas) {
        step_single_cas_delete();
      } else {
        step_put();
      }
      break;
    case OpType::migrate:
      step_migrate();
      break;
    case OpType::break_lease:
      step_break_lease();
      break;
    case OpType::scrub:
      step_scrub();
      break;
  }
  return result_;
}

bool Machine::visible(const State& state, Word word) const {
  if (rules_.commit_by_cas) return !word.pending();
  return state.entries[static_cast<std::size_t>(word.id())].valid != 0;
}

Word Machine::emptied(Word word) const { return rules_.unique_empty ? Word::emptied(word.id()) : Word{}; }

bool Machine::reserved(Word word) {
  if (!rules_.tagged_migrate || !word.empty() || !word.has_id()) return false;
  const Entry& e = entry(word);
  return e.kind == EntryKind::copy && e.valid == 0 && e.recycled == 0;
}

Word Machine::read(Slot slot) {
  const Word word = s().slots[slot];
  if (text_ != nullptr) note(fmt::format("READ s{} = {}", slot, spelled(word)));
  return word;
}

bool Machine::cas(Slot slot, Word expected, Word desired) {
  const bool swapped = s().slots[slot] == expected;
  if (text_ != nullptr) {
    note(fmt::format("CAS s{}: {} -> {} {}", slot, spelled(expected), spelled(desired),
                     swapped ? "ok" : "FAILS"));
  }
  if (swapped) s().slots[slot] = desired;
  return swapped;
}

// Makes the entry valid: by a CAS that takes the pending bit away, or by a local store.
void Machine::commit(Slot slot, int id, bool* won) {
  *won = true;
  if (rules_.commit_by_cas) {
    const Word word = Word::occupied(id, true);
    *won = cas(slot, word, word.committed());
  } else if (text_ != nullptr) {
    note(fmt::format("d{}.valid = 1", id));
  }
  if (*won) s().entries[static_cast<std::size_t>(id)].valid = 1;
}

int Machine::allocate(Key key, Value value, EntryKind kind, Word previous) {
  const int id = first_entry_[client_] + me().allocated++;
  LOCH_CHECK_LT(id, first_entry_[client_ + 1]);
  s().entries[static_cast<std::size_t>(id)] = {key, value, 0, 0, previous, kind, 0, {}};
  return id;
}

void Machine::stage(Word word) { me().staged[me().staged[0].has_id() ? 1 : 0] = word; }

void Machine::note(std::string_view text) {
  if (text_ == nullptr) return;
  if (!text_->empty()) text_->append("; ");
  text_->append(text);
}

std::string Machine::spelled(Word word) const {
  if (!word.has_id()) return "EMPTY";
  if (word.empty()) return fmt::format("EMPTY|d{}", word.id());
  const Entry& e = world_->state.entries[static_cast<std::size_t>(word.id())];
  return fmt::format("d{}({}=v{}{})", word.id(), key_names[e.key], e.value,
                     visible(world_->state, word) ? "" : ", pending");
}

void Machine::respond(Answer answer) {
  const bool aborted = answer.type == Answer::Type::aborted;
  if (text_ != nullptr) {
    std::string told = aborted ? "CONCURRENT" : answer.type == Answer::Type::not_found ? "not_found" : "ok";
    if (answer.type == Answer::Type::value)
      told = answer.value == 0 ? "not_found" : fmt::format("v{}", answer.value);
    const bool moves = op_.type == OpType::migrate;
    const std::string on =
        moves ? fmt::format("s{}->s{}", op_.from, op_.to) : fmt::format("{}", key_names[op_.key]);
    note(fmt::format("=> {}({}): {}", model::spelled(op_.type), on, told));
  }
  if (op_.type == OpType::get || op_.type == OpType::put || op_.type == OpType::remove) {
    UnderWay under_way{};
    for (int c = 0; c < clients(); ++c) {
      const ClientState& state = s().clients[c];
      if (!finished(s(), c) && state.begun != 0)
        under_way[c] = &programs_[static_cast<std::size_t>(c)][state.op];
    }
    RegisterSet& registers = world_->registers[op_.key];
    result_.violated = !registers.answer(under_way, client_, me().op, answer, aborts_,
                                         rules_.delete_tells_absence, programs_, op_.key);
    if (aborted && client_ >= real_clients()) {
      result_.stuck_get = op_.type == OpType::get;
      result_.stuck_put = op_.type == OpType::put;
    }
  }
  ClientState next;
  next.allocated = me().allocated;
  next.op = static_cast<std::uint8_t>(me().op + 1);
  me() = next;
}

}  // namespace loch::model
