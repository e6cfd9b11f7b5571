// PUT, and DELETE by tombstone: choose a slot, link a pending entry by CAS, look at the other slots,
// commit (S1, section 4.2.2). The published order removes duplicates before it commits; the mended
// one looks everywhere first and touches nobody else's entry.
#include "common/base/check.h"
#include "tests/model/machine.h"

namespace loch::model {
namespace {
enum Phase : std::uint8_t {
  scan,              // forward pass
  header,            // of an entry of the key
  link,              // CAS the new entry in
  beyond,            // 2017: the ranks after the chosen one
  duplicate_header,  // 2017: of another entry of the key
  remove_duplicate,  // 2017
  verify,            // reverse pass
  finish,            // commit, or empty the tombstone
  rollback,
  absent,      // the mended DELETE found no entry: verify, not_found
  check_room,  // the header of the copy that a tagged EMPTY word names
  unlink_old,  // a known-bad variant: empties the slot before it links
  make_room,   // and on: the phases of an inner MIGRATE
};
}

void Machine::step_put() {
  switch (me().phase) {
    case scan:
      put_scan();
      return;
    case header:
      put_header();
      return;
    case link:
      put_link();
      return;
    case beyond:
      put_look_beyond();
      return;
    case duplicate_header:
      put_duplicate_header();
      return;
    case remove_duplicate:
      put_remove_duplicate();
      return;
    case verify:
      put_verify();
      return;
    case finish:
      put_commit();
      return;
    case rollback:
      put_rollback();
      return;
    case check_room:
      put_check_room();
      return;
    case unlink_old:
      put_unlink_old();
      return;
    case absent:
      if (read(candidate(op_.key, me().i)) != me().seen[me().i]) {
        abort();
      } else if (me().i-- == 0) {
        respond({Answer::Type::not_found});
      }
      return;
    default:
      switch (migrate(make_room)) {
        case Migration::running:
          return;
        case Migration::done:
          put_after_room(true);
          return;
        case Migration::failed:
          put_after_room(false);
          return;
      }
  }
}

void Machine::put_scan() {
  const Word word = me().seen[me().i] = read(candidate(op_.key, me().i));
  if (word.empty()) {
    if (me().first_empty == nobody) me().first_empty = me().i;
    if (!rules_.scan_all_first) {
      me().candidate = me().i;
      me().phase = link;
      return;
    }
  } else if (holds_key(word, op_.key) && (rules_.minds_later_matches || me().candidate == nobody)) {
    me().phase = header;
    return;
  }
  put_next_candidate();
}

void Machine::put_header() {
  const bool committed = visible(s(), me().seen[me().i]);
  note(committed ? "READ header: valid" : "READ header: pending");
  if (!committed && rules_.abort_on_pending) {
    abort();
    return;
  }
  me().candidate = me().i;
  if (!rules_.scan_all_first || (rules_.update_by_cas && op_.type == OpType::put)) {
    me().phase = link;
  } else {
    put_next_candidate();
  }
}

void Machine::put_next_candidate() {
  me().phase = scan;
  if (++me().i <= last_rank()) return;
  put_choose();
}

void Machine::put_choose() {
  if (me().candidate == nobody && op_.type == OpType::remove && rules_.absent_delete_verifies) {
    me().i = static_cast<std::uint8_t>(last_rank() - 1);
    me().phase = absent;
    return;
  }
  if (me().candidate == nobody && rules_.skips_reserved) {
    me().i = nobody;  // before rank 0
    put_next_room();
    return;
  }
  if (me().candidate == nobody) me().candidate = me().first_empty;
  if (me().candidate != nobody) {
    me().phase = link;
  } else {
    put_when_full();
  }
}

// Looks for an EMPTY slot after rank i that no unfinished MIGRATE holds.
void Machine::put_next_room() {
  const int after = me().i == nobody ? -1 : me().i;
  for (int rank = after + 1; rank <= last_rank(); ++rank) {
    me().i = static_cast<std::uint8_t>(rank);
    const Word word = me().seen[me().i];
    if (!word.empty()) continue;
    const bool tagged = rules_.tagged_migrate && word.has_id() && entry(word).kind == EntryKind::copy;
    me().candidate = tagged ? nobody : me().i;
    me().phase = tagged ? check_room : link;
    return;
  }
  if (me().saw_reserved != 0) {
    abort();
  } else {
    put_when_full();
  }
}

void Machine::put_check_room() {
  const bool taken = reserved(me().seen[me().i]);
  note(taken ? "READ copy's header: unfinished" : "READ copy's header: finished");
  if (taken) {
    me().saw_reserved = 1;
    put_next_room();
  } else {
    me().candidate = me().i;
    me().phase = link;
  }
}

void Machine::put_when_full() {
  if (rules_.when_full == WhenFull::abort) {
    abort();
    return;
  }
  // The entry of the first candidate moves to the first other slot of its own key.
  me().from = candidate(op_.key, 0);
  me().source = me().seen[0];
  const Key key = entry(me().source).key;
  for (int rank = last_rank(); rank >= 0; --rank) {
    if (candidate(key, rank) != me().from) me().to = candidate(key, rank);
  }
  me().phase = make_room + 1;  // its source word is already in hand
}

void Machine::put_after_room(bool made) {
  if (!made) {
    abort();
    return;
  }
  me().made_room = 1;
  if (rules_.when_full == WhenFull::migrate_rescan) {
    ClientState again;
    again.op = me().op;
    again.begun = 1;
    again.allocated = me().allocated;
    me() = again;
    return;
  }
  me().seen[0] = rules_.tagged_migrate ? Word::emptied(me().copy) : emptied(me().source);
  me().candidate = 0;
  me().phase = link;
}

void Machine::put_link() {
  const Word word = me().seen[me().candidate];
  if (!rules_.skips_reserved && reserved(word)) {
    note("(held by an unfinished MIGRATE)");
    abort();
    return;
  }
  const bool update = !word.empty();
  if (update && rules_.unlinks_first) {
    me().phase = unlink_old;
    return;
  }
  const bool at_once = rules_.update_by_cas && update && op_.type == OpType::put;
  const EntryKind kind = op_.type == OpType::remove ? EntryKind::tombstone : EntryKind::value;
  const int id = allocate(op_.key, op_.value, kind, update ? word : Word{});
  me().entry = static_cast<std::uint8_t>(id);
  own_entry().valid = at_once ? 1 : 0;
  const Word linked = at_once ? Word::occupied(id, false) : pending_word(id);
  if (!cas(candidate(op_.key, me().candidate), word, linked)) {
    own_entry().recycled = 1;
    abort();
    return;
  }
  me().old = word;
  me().seen[me().candidate] = linked;
  if (update && op_.type == OpType::remove) me().removed_any = 1;
  if (at_once) {
    recycle(word);
    done();
  } else if (rules_.scan_all_first || me().made_room != 0) {
    put_begin_verify();
  } else if (me().candidate < last_rank()) {
    me().i = static_cast<std::uint8_t>(me().candidate + 1);
    me().phase = beyond;
  } else {
    put_begin_verify();
  }
}

void Machine::put_unlink_old() {
  const Word old = me().seen[me().candidate];
  if (!cas(candidate(op_.key, me().candidate), old, emptied(old))) {
    abort();
    return;
  }
  recycle(old);
  if (op_.type == OpType::remove) me().removed_any = 1;
  me().seen[me().candidate] = emptied(old);
  me().phase = link;
}

void Machine::put_look_beyond() {
  const Word word = me().seen[me().i] = read(candidate(op_.key, me().i));
  if (holds_key(word, op_.key)) {
    me().phase = duplicate_header;
  } else {
    put_next_beyond();
  }
}

void Machine::put_duplicate_header() {
  const bool committed = visible(s(), me().seen[me().i]);
  if (op_.type == OpType::remove) me().saw_pending = committed ? 0 : 1;
  note(committed ? "READ duplicate's header: valid" : "READ duplicate's header: pending");
  switch (committed ? rules_.committed_duplicate : rules_.pending_duplicate) {
    case Duplicate::remove:
      me().phase = remove_duplicate;
      return;
    case Duplicate::abort:
      me().phase = rollback;
      return;
    case Duplicate::skip:
      put_next_beyond();
      return;
  }
}

void Machine::put_remove_duplicate() {
  const Word word = me().seen[me().i];
  if (!cas(candidate(op_.key, me().i), word, emptied(word))) {
    me().phase = rollback;
    return;
  }
  if (op_.type == OpType::remove && me().saw_pending == 0) me().removed_any = 1;
  me().seen[me().i] = emptied(word);
  stage(word);
  put_next_beyond();
}

void Machine::put_next_beyond() {
  me().phase = beyond;
  if (++me().i > last_rank()) put_begin_verify();
}

// After an inner MIGRATE the short cut is unsound: all slots were read before the own CAS (H7).
void Machine::put_begin_verify() {
  const bool after_room = me().made_room != 0 && rules_.when_full == WhenFull::migrate_verify_all;
  if (rules_.verify == Verify::none) {
    me().phase = finish;
    return;
  }
  const bool omit_last = rules_.verify == Verify::reverse_pass && rules_.verify_omits_last && !after_room;
  me().phase = verify;
  me().i = static_cast<std::uint8_t>(omit_last ? last_rank() - 1 : last_rank());
  if (rules_.verify == Verify::every_other && me().i == me().candidate) --me().i;
}

void Machine::put_verify() {
  const Word word = read(candidate(op_.key, me().i));
  note("(verify)");
  const bool conflict = rules_.verify_keys_only ? holds_key(word, op_.key) : word != me().seen[me().i];
  if (conflict) {
    me().phase = rollback;
    return;
  }
  const bool skip_own = rules_.verify == Verify::every_other && me().i == me().candidate + 1;
  const int next = me().i - (skip_own ? 2 : 1);
  if (next < 0) {
    me().phase = finish;
  } else {
    me().i = static_cast<std::uint8_t>(next);
  }
}

void Machine::put_commit() {
  const Slot slot = candidate(op_.key, me().candidate);
  if (op_.type == OpType::put) {
    bool won = false;
    commit(slot, me().entry, &won);
    if (!won) {
      abort();
      return;
    }
    recycle(me().old);
    for (const Word word : me().staged) recycle(word);
    done();
    return;
  }
  const Word tombstone = me().seen[me().candidate];
  const bool emptied_it = cas(slot, tombstone, emptied(tombstone));
  if (emptied_it) own_entry().recycled = 1;
  if (emptied_it || others_remove()) recycle(me().old);
  for (const Word word : me().staged) recycle(word);
  if (!emptied_it && !rules_.delete_loses_quietly) {
    abort();
  } else if (rules_.delete_tells_absence && me().removed_any == 0) {
    respond({Answer::Type::not_found});
  } else {
    done();
  }
}

void Machine::put_rollback() {
  const Slot slot = candidate(op_.key, me().candidate);
  const Word linked = me().seen[me().candidate];
  for (const Word word : me().staged) recycle(word);
  switch (rules_.rollback) {
    case Rollback::none:
      note("(abort, nothing cleaned up)");
      break;
    case Rollback::restore:
      if (cas(slot, linked, me().old)) {
        own_entry().recycled = 1;
      } else if (others_remove()) {
        recycle(me().old);
      }
      break;
    case Rollback::clear:
      if (cas(slot, linked, emptied(linked))) {
        own_entry().recycled = 1;
        recycle(me().old);
      }
      break;
  }
  abort();
}

}  // namespace loch::model
