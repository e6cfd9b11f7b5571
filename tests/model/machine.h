// The protocol as a machine of atomic steps: one step is one READ, one CAS or one local store. The
// operations are in get.cc, put.cc, remove.cc, migrate.cc and repair.cc; this is what they share.
#pragma once

#include <string>

#include "tests/model/register_set.h"
#include "tests/model/rules.h"
#include "tests/model/state.h"

namespace loch::model {

// A state of the world with what its history allows.
struct World {
  State state;
  std::array<RegisterSet, key_count> registers;
};

// What a step showed.
struct StepResult {
  bool violated = false;   // no abstract configuration explains the answer
  bool stuck_get = false;  // the fresh client at the end could not finish its GET
  bool stuck_put = false;
};

class Machine {
 public:
  // Both outlive the machine. The scenario's final client is added to `programs()`.
  Machine(const Rules& rules, const Scenario& scenario, Aborts aborts);

  [[nodiscard]] World initial() const;
  [[nodiscard]] int clients() const { return static_cast<int>(programs_.size()); }
  // Clients of the scenario, without the fresh one at the end.
  [[nodiscard]] int real_clients() const { return static_cast<int>(scenario_.clients.size()); }
  [[nodiscard]] bool finished(const State& state, int client) const {
    return state.clients[client].op >= programs_[static_cast<std::size_t>(client)].size();
  }
  [[nodiscard]] int entries() const { return entries_; }
  [[nodiscard]] const Rules& rules() const { return rules_; }
  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  // The entries that client `client` has made so far, as [first, last).
  [[nodiscard]] std::pair<int, int> entries_of(const State& state, int client) const;
  [[nodiscard]] bool visible(const State& state, Word word) const;

  // One step of `client`, which has not finished. Text of the step goes to `*text` unless null.
  StepResult step(World* world, int client, std::string* text);

 private:
  // What the step works on.
  State& s() { return world_->state; }
  ClientState& me() { return world_->state.clients[client_]; }
  Entry& entry(Word word) { return world_->state.entries[static_cast<std::size_t>(word.id())]; }
  Entry& own_entry() { return world_->state.entries[me().entry]; }
  [[nodiscard]] Slot candidate(Key key, int rank) const {
    return scenario_.candidates[key][static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] int last_rank() const { return scenario_.hash_functions - 1; }
  [[nodiscard]] Word emptied(Word word) const;
  [[nodiscard]] Word pending_word(int id) const { return Word::occupied(id, rules_.commit_by_cas); }
  // Who found the own entry gone from its slot may conclude this: another PUT took it away as a
  // duplicate, and the old one with it. Else a lease breaker did, and the old entry is linked again.
  [[nodiscard]] bool others_remove() const { return rules_.committed_duplicate == Duplicate::remove; }
  // An EMPTY word that an unfinished MIGRATE holds: nobody may link there (the TAG rule).
  [[nodiscard]] bool reserved(Word word);

  // The atomic accesses.
  Word read(Slot slot);
  bool cas(Slot slot, Word expected, Word desired);
  bool holds_key(Word word, Key key) { return !word.empty() && entry(word).key == key; }
  void commit(Slot slot, int id, bool* won);
  int allocate(Key key, Value value, EntryKind kind, Word previous);
  void recycle(Word word) {
    if (!word.empty()) entry(word).recycled = 1;
  }
  void stage(Word word);
  void note(std::string_view text);
  [[nodiscard]] std::string spelled(Word word) const;

  // Ends the current operation.
  void respond(Answer answer);
  void abort() { respond({Answer::Type::aborted}); }
  void done() { respond({Answer::Type::ok}); }

  void step_get();
  void get_next_rank();
  void step_put();  // and DELETE by tombstone
  void put_scan();
  void put_header();
  void put_next_candidate();
  void put_choose();
  void put_link();
  void put_look_beyond();
  void put_duplicate_header();
  void put_remove_duplicate();
  void put_next_beyond();
  void put_check_room();
  void put_next_room();
  void put_when_full();
  void put_unlink_old();
  void put_begin_verify();
  void put_verify();
  void put_commit();
  void put_rollback();
  void put_after_room(bool made);
  void step_clear_each();
  void step_single_cas_delete();
  void step_migrate();
  // A MIGRATE that another operation runs inside itself: true while it has not ended.
  enum class Migration : std::uint8_t { running, done, failed };
  Migration migrate(std::uint8_t base_phase);
  void step_break_lease();
  void step_scrub();
  void scrub_next_rank();

  const Rules& rules_;
  const Scenario& scenario_;
  Aborts aborts_;
  std::vector<std::vector<Op>> programs_;
  std::array<int, client_max + 1> first_entry_{};
  int entries_ = 0;

  // During step().
  World* world_ = nullptr;
  int client_ = 0;
  Op op_;
  std::string* text_ = nullptr;
  StepResult result_;
};

}  // namespace loch::model
