// MIGRATE: copies an entry to another candidate slot of its key (S1, sections 4.2.3 and 4.3.1).
#include <fmt/format.h>

#include "tests/model/machine.h"

namespace loch::model {
namespace {
enum Phase : std::uint8_t {
  read_source,
  read_entry,
  read_target,
  link_copy,
  clear_source,
  commit_copy,
  undo_copy
};
}

void Machine::step_migrate() {
  me().from = op_.from;
  me().to = op_.to;
  switch (migrate(0)) {
    case Migration::running:
      return;
    case Migration::done:
      done();
      return;
    case Migration::failed:
      abort();
      return;
  }
}

// Phases are counted from `base_phase`, so that a PUT can run one inside; it then begins with the
// source word in hand (me().source) at phase read_entry.
Machine::Migration Machine::migrate(std::uint8_t base_phase) {
  ClientState& c = me();
  const auto go = [&](Phase phase) {
    c.phase = static_cast<std::uint8_t>(base_phase + phase);
    return Migration::running;
  };
  switch (c.phase - base_phase) {
    case read_source:
      c.source = read(c.from);
      return c.source.empty() ? Migration::failed : go(read_entry);
    case read_entry: {
      if (text_ != nullptr) note(fmt::format("READ d{}", c.source.id()));
      const Key key = entry(c.source).key;
      bool legal = false;
      for (int rank = 0; rank <= last_rank(); ++rank) legal = legal || candidate(key, rank) == c.to;
      return legal && visible(s(), c.source) ? go(read_target) : Migration::failed;
    }
    case read_target:
      c.target = read(c.to);
      return c.target.empty() && !reserved(c.target) ? go(link_copy) : Migration::failed;
    case link_copy: {
      const Entry source = entry(c.source);
      const int id =
          allocate(source.key, source.value, EntryKind::copy, rules_.copy_has_previous ? c.source : Word{});
      c.copy = static_cast<std::uint8_t>(id);
      Entry& copy = s().entries[c.copy];
      copy.from_slot = c.from;
      copy.from_word = c.source;
      if (cas(c.to, c.target, pending_word(id))) return go(clear_source);
      copy.recycled = 1;
      return Migration::failed;
    }
    case clear_source:
      // Tagged, the source says whose copy took its entry away: a repair can tell.
      return go(cas(c.from, c.source, rules_.tagged_migrate ? Word::emptied(c.copy) : emptied(c.source))
                    ? commit_copy
                    : undo_copy);
    case commit_copy: {
      bool won = false;
      commit(c.to, c.copy, &won);
      s().entries[c.copy].valid = 1;
      recycle(c.source);
      return Migration::done;
    }
    default:
      if (cas(c.to, pending_word(c.copy), c.target)) s().entries[c.copy].recycled = 1;
      return Migration::failed;
  }
}

}  // namespace loch::model
