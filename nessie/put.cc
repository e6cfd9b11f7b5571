// Makes one attempt of a PUT, or of a DELETE by tombstone.
#include "nessie/put.h"

#include "common/coro/co_try.h"
#include "nessie/choose.h"
#include "nessie/finish.h"
#include "nessie/link.h"
#include "nessie/migrate.h"

namespace loch::nessie {
namespace {

// If all candidate slots hold other keys, moves the key in the first one away (Nessie, 2017, 4.2.3).
coro::Task<Attempt> make_room(Access access, Writing* w) {
  const cuckoo::Place source = w->hash.candidate(0);
  const Migrated moved = co_await migrate(access, source, w->seen[0]);
  if (moved.ended != Attempt::ok) co_return moved.ended;
  if (access.settings().rules.migrate_rescans) co_return Attempt::again;
  w->rank = 0;
  w->seen[0] = moved.left;
  w->all_were_read = true;
  co_return Attempt::ok;
}

// READs the slots that the variant's rules name again after the operation's own CAS, to detect concurrent
// changes.
coro::Task<Attempt> verify(Access access, Writing* w) {
  if (access.lane.has(Flaw::tombstone_unverified) && w->kind == EntryKind::tombstone) co_return Attempt::ok;
  const std::uint32_t functions = access.settings().functions();
  switch (access.settings().rules.verify) {
    case Verify::none:
      break;
    case Verify::reverse_pass:
      co_return co_await verify_slots(access, &w->hash, w->seen, functions - 1, no_rank);
    case Verify::every_other:
      co_return co_await verify_slots(access, &w->hash, w->seen, functions, w->rank);
  }
  co_return Attempt::ok;
}

}  // namespace

coro::Task<Attempt> write_once(Access access, Writing* w) {
  const Rules& rules = access.settings().rules;
  w->start_over();
  LOCH_CO_TRY(choose(access, w));
  // An INSERT ends here if the scan found the key. Otherwise it continues like a PUT of a new key: before it
  // commits the entry, it reads all other candidate slots again, and rolls back if one has changed since the
  // scan.
  if (w->only_if_absent && w->is_update) co_return Attempt::exists;
  if (w->kind == EntryKind::tombstone && rules.delete_checks_first && !w->is_update) {
    co_return co_await confirm_absent(access, &w->hash, w->seen);
  }
  if (w->rank == no_rank) {
    LOCH_CO_TRY(make_room(access, w));
  }
  const bool is_fast = w->is_fast(rules);
  LOCH_CO_TRY(prepare_entry(access, w));
  if (access.is_over_age()) co_return Attempt::expired;
  LOCH_CO_TRY(link(access, w));
  if (!is_fast) {
    if (rules.removes_duplicates && !w->all_were_read) {
      const Attempt removed = co_await remove_duplicates(access, w);
      if (removed != Attempt::ok) co_return co_await roll_back(access, w, removed);
    }
    const Attempt verified = co_await verify(access, w);
    if (verified != Attempt::ok) co_return co_await roll_back(access, w, verified);
    LOCH_CO_TRY(end(access, w));
  }
  co_await recycle_staged(access, w);
  const bool removed_nothing = w->kind == EntryKind::tombstone && !w->removed_any;
  co_return removed_nothing ? Attempt::not_found : Attempt::ok;
}

}  // namespace loch::nessie
