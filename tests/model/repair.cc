// What others do about a client that died or stalled in the middle: break its lease while it may
// still live, or fence it and scrub what it left.
#include "tests/model/machine.h"

namespace loch::model {
namespace {
enum BreakPhase : std::uint8_t { look, read_lease, break_it };
enum ScrubPhase : std::uint8_t { find, read_orphan, read_source, drop_write, drop_copy, commit_copy };
}  // namespace

// Breaks the first pending entry of the key that is not a MIGRATE's copy.
void Machine::step_break_lease() {
  const Slot slot = candidate(op_.key, me().i);
  switch (me().phase) {
    case look:
      me().seen[me().i] = read(slot);
      if (holds_key(me().seen[me().i], op_.key)) {
        me().phase = read_lease;
      } else if (++me().i > last_rank()) {
        abort();
      }
      return;
    case read_lease: {
      const Word word = me().seen[me().i];
      if (!visible(s(), word) && entry(word).kind != EntryKind::copy) {
        note("READ header: pending, its lease has expired");
        me().phase = break_it;
        return;
      }
      note("READ header: nothing to break");
      me().phase = look;
      if (++me().i > last_rank()) abort();
      return;
    }
    default: {
      const Word word = me().seen[me().i];
      const Word previous = entry(word).previous;
      if (!cas(slot, word, previous.empty() ? emptied(word) : previous)) {
        abort();
        return;
      }
      recycle(word);
      done();
    }
  }
}

void Machine::scrub_next_rank() {
  me().phase = find;
  if (++me().i > last_rank()) done();
}

// For each pending entry that a crashed client left under the key: a write goes back to what was
// there; a copy is completed if its MIGRATE had emptied the source, else dropped (H12).
void Machine::step_scrub() {
  const Slot slot = candidate(op_.key, me().i);
  const Word word = me().source;
  switch (me().phase) {
    case find:
      me().source = read(slot);
      if (holds_key(me().source, op_.key)) {
        me().phase = read_orphan;
      } else {
        scrub_next_rank();
      }
      return;
    case read_orphan: {
      bool dead = false;
      for (int c = 0; c < clients(); ++c) {
        const auto [first, last] = entries_of(s(), c);
        if (word.id() >= first && word.id() < last) dead = (s().crashed >> c & 1) != 0;
      }
      if (visible(s(), word) || !dead) {
        note("READ header: not an orphan");
        scrub_next_rank();
        return;
      }
      note("READ header: an orphan");
      me().phase = entry(word).kind == EntryKind::copy ? read_source : drop_write;
      return;
    }
    case read_source: {
      const Word now = read(entry(word).from_slot);
      const bool cleared =
          rules_.tagged_migrate ? now == Word::emptied(word.id()) : now != entry(word).from_word;
      me().phase = cleared ? commit_copy : drop_copy;
      return;
    }
    case drop_write: {
      const Word previous = entry(word).previous;
      if (cas(slot, word, previous.empty() ? emptied(word) : previous)) recycle(word);
      scrub_next_rank();
      return;
    }
    case drop_copy:
      if (cas(slot, word, emptied(word))) recycle(word);
      scrub_next_rank();
      return;
    default: {
      bool won = false;
      commit(slot, word.id(), &won);
      entry(word).valid = 1;
      scrub_next_rank();
    }
  }
}

}  // namespace loch::model
