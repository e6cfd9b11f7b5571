// Executes GET, PUT, DELETE and INSERT requests on the table that a server worker owns.
#include "common/coupled/table_server.h"

#include <algorithm>
#include <cstring>

#include "common/base/probe.h"
#include "common/fabric/copy_out.h"
#include "common/fabric/memory.h"

namespace loch::coupled {

TableServer::TableServer(Tables& tables, fabric::Worker& worker, std::uint32_t index)
    : tables_(tables),
      settings_(tables.settings()),
      rules_(settings_.rules),
      worker_(worker),
      node_(tables.local(worker.node())),
      index_(index),
      first_row_(worker.node() * settings_.servers()),
      row_(node_.rows[index].get()) {
  for (Asked& each : asked_) each.key.resize(settings_.config.key_size);
  if (settings_.index_by != IndexBy::cpu) nic_.emplace(tables, worker, index);
}

void TableServer::copy_key(const rpc::Request& request, std::vector<std::byte>& key) const {
  const fabric::LocalSlice frame = request.frame;
  const std::uint32_t key_at = settings_.frames.key_at(request.bytes);
  fabric::copy_out(key.data(), frame.region->at(frame.offset + key_at), key.size());
}

// Prefetches the entries that a look-up of the next request's key will compare, and the first lines of the
// one that its filter bits promise to be the key's. These misses are a fifth of a server's time with 10,000
// keys.
void TableServer::expect(rpc::Request next) {
  constexpr std::uint64_t line = 64, most = 4 * line;
  is_expecting_ = false;
  if (!row_->is_laid_out) return;
  copy_key(next, next_->key);
  next_->hash = settings_.family.hash(next_->key);
  if (next_->hash.candidate(0).node != first_row_ + index_) return;
  is_expecting_ = true;
  for (std::uint32_t rank = 0; rank < settings_.functions(); ++rank) {
    const std::uint64_t word = row_->memory.word(next_->hash.candidate(rank).slot);
    if (cuckoo::IndexWord::is_empty(word)) continue;
    const bool is_promised = cuckoo::IndexWord::filter(word) == next_->hash.filter(settings_.filter_bits);
    const std::byte* const entry =
        row_->memory.data().at(row_->memory.entry_at(cuckoo::IndexWord::entry(word)));
    const std::uint64_t bytes =
        is_promised ? std::min<std::uint64_t>(most, settings_.entry.full_bytes()) : now_->key.size();
    for (std::uint64_t at = 0; at < bytes; at += line) __builtin_prefetch(entry + at);
    if (is_promised) return;
  }
}

coro::Task<std::uint8_t> TableServer::handle(rpc::Request request, ReplyPlace reply) {
  copy_key(request, now_->key);
  if (is_expecting_ && std::memcmp(next_->key.data(), now_->key.data(), now_->key.size()) == 0) {
    std::swap(now_, next_);
  } else {
    now_->hash = settings_.family.hash(now_->key);
  }
  is_expecting_ = false;
  const std::uint32_t first = first_row_;
  const std::uint32_t row = now_->hash.candidate(0).node;
  const bool is_own = row == first + index_;
  const bool is_of_node = row >= first && row < first + settings_.servers();
  if (!is_own && !(rules_.serves_any_row && is_of_node)) {
    ++row_->counts.refused;
    co_return static_cast<std::uint8_t>(Say::refused);
  }
  row_ = node_.rows[row - first].get();
  if (!row_->is_laid_out && rules_.serves_lost) tables_.lay_out(*row_, worker_);
  if (!row_->is_laid_out) {
    LOCH_PROBE("coupled.table.lost");
    ++row_->counts.lost;
    co_return static_cast<std::uint8_t>(Say::lost);
  }
  ++row_->counts.requests;
  Say say = Say::refused;
  row_->is_changing = true;
  switch (static_cast<Ask>(request.code)) {
    case Ask::get:
      say = co_await get(reply);
      break;
    case Ask::put:
    case Ask::insert_if_absent:  // one call: the frame of an inlined put() is part of this coroutine's
      say = co_await put(request, static_cast<Ask>(request.code) == Ask::insert_if_absent);
      break;
    case Ask::remove:
      say = co_await remove();
      break;
  }
  row_->is_changing = deferred_.has_value() || say == Say::unknown;
  if (say == Say::table_full) {
    LOCH_PROBE("coupled.table.full");
    ++row_->counts.full;
  }
  if (say == Say::busy) {
    LOCH_PROBE("coupled.readers.no-entry-free");
    ++row_->counts.busy;
  }
  co_return static_cast<std::uint8_t>(say);
}

// CPU time of a look-up: for each probed slot, to hash the key and load the slot's word and, if the slot is
// occupied, to read and compare its entry's key.
Nanos TableServer::cost_of(const cuckoo::Table::Lookup& found) const {
  const fabric::CpuCosts& costs = worker_.costs();
  const std::uint64_t size = now_->key.size();
  return now_->hash.known() * (costs.hash(size) + costs.memory()) +
         found.compared * (costs.memory() + costs.compare(size));
}

coro::Task<std::optional<cuckoo::Table::Lookup>> TableServer::look_up() {
  if (nic_) co_return co_await look_up_by_nic();
  const cuckoo::Table::Lookup found = row_->table.look_up(now_->hash, now_->key);
  co_await worker_.compute(cost_of(found));
  co_return found;
}

// As Table::look_up(), with the words READ through the NIC. The keys are compared in memory: no CAS changes
// entries, so those of the worker's own node can be accessed directly (Nessie, 2017, section 5).
coro::Task<std::optional<cuckoo::Table::Lookup>> TableServer::look_up_by_nic() {
  const fabric::CpuCosts& costs = worker_.costs();
  cuckoo::Table::Lookup found;
  seen_.clear();
  for (std::uint32_t rank = 0; rank < settings_.functions(); ++rank) {
    co_await worker_.compute(costs.hash(now_->key.size()));
    const std::uint64_t slot = now_->hash.candidate(rank).slot;
    const std::optional<std::uint64_t> word = co_await word_by_nic(slot);
    if (!word) co_return std::nullopt;
    if (cuckoo::IndexWord::is_empty(*word)) {
      if (!found.free) found.free = slot;
      continue;
    }
    ++found.compared;
    co_await worker_.compute(costs.memory() + costs.compare(now_->key.size()));
    if (!row_->memory.has_key(cuckoo::IndexWord::entry(*word), now_->key)) continue;
    found.slot = slot;
    found.word = *word;
    break;
  }
  co_return found;
}

coro::Task<std::optional<std::uint64_t>> TableServer::word_by_nic(std::uint64_t slot) {
  const auto before = std::ranges::find(seen_, slot, &std::pair<std::uint64_t, std::uint64_t>::first);
  if (before != seen_.end()) co_return before->second;
  const std::optional<std::uint64_t> word = co_await nic_->read(slot);
  if (word) seen_.emplace_back(slot, *word);
  co_return word;
}

// Executes a GET. GETs are the most frequent requests, so this function looks up and copies by itself instead
// of awaiting the coroutines look_up() and copy_value().
coro::Task<Say> TableServer::get(ReplyPlace reply) {
  cuckoo::Table::Lookup found;
  if (nic_) {
    const std::optional<cuckoo::Table::Lookup> read = co_await look_up_by_nic();
    if (!read) co_return Say::busy;
    found = *read;
  } else {
    found = row_->table.look_up(now_->hash, now_->key);
    co_await worker_.compute(cost_of(found));
  }
  if (!found.slot) co_return Say::not_found;
  const std::uint64_t entry = row_->memory.entry_at(cuckoo::IndexWord::entry(found.word));
  const fabric::LocalSlice to{reply.region, reply.start(settings_.frames.value_reply_bytes())};
  const fabric::LocalSlice from{&row_->memory.data(), entry + settings_.entry.value_at()};
  const ValueCopy copy = value_copy(to, from);
  if (copy.half_cost == 0) {
    // In no time, so that no halves can be told apart. The reply is private until it is sealed.
    if (copy.kept > 0) fabric::copy_out(to.data(), from.data(), copy.kept);
    co_return Say::value;
  }
  copy.copy_first();
  co_await worker_.compute(copy.half_cost);
  copy.copy_rest();
  co_await worker_.compute(copy.half_cost);
  co_return Say::value;
}

coro::Task<Say> TableServer::put(rpc::Request request, bool only_if_absent) {
  const fabric::LocalSlice frame = request.frame;
  const std::uint64_t length =
      fabric::load_word(frame.region->at(frame.offset + settings_.frames.length_at()));
  if (length != settings_.config.value_size) {
    ++row_->counts.refused;
    co_return Say::refused;
  }
  const std::optional<cuckoo::Table::Lookup> found = co_await look_up();
  if (!found) co_return Say::busy;
  if (found->slot && only_if_absent && !rules_.inserts_replace) co_return Say::exists;
  if (found->slot) co_return co_await replace(request, *found->slot, found->word);
  co_return co_await insert(request, found->free);
}

coro::Task<Say> TableServer::replace(rpc::Request request, std::uint64_t slot, std::uint64_t now) {
  const std::uint32_t old = cuckoo::IndexWord::entry(now);
  if (changes_in_place()) {
    const fabric::LocalSlice to{&row_->memory.data(),
                                row_->memory.entry_at(old) + settings_.entry.value_at()};
    co_await copy_value(to, request.frame);
    co_return Say::done;
  }
  const std::optional<std::uint32_t> fresh = row_->entries.allocate(worker_.now());
  if (!fresh) co_return Say::busy;
  const std::uint64_t word = occupied(*fresh, cuckoo::IndexWord::filter(now));
  const bool is_known = co_await write_and_commit(*fresh, request, slot, word);
  if (!is_known) co_return Say::unknown;
  let_go(old);
  co_return Say::done;
}

coro::Task<Say> TableServer::insert(rpc::Request request, std::optional<std::uint64_t> free) {
  const std::optional<std::uint32_t> fresh = row_->entries.allocate(worker_.now());
  if (!fresh) co_return Say::busy;
  if (!free) {
    const cuckoo::Table::Moves moves = row_->table.make_room(now_->hash);
    const fabric::CpuCosts& costs = worker_.costs();
    row_->counts.examined += moves.examined;
    co_await worker_.compute(static_cast<Nanos>(moves.examined) * settings_.functions() *
                             costs.hash(now_->key.size()));
    if (moves.slots.empty()) {
      row_->entries.release(*fresh);
      co_return Say::table_full;
    }
    const bool is_moved = co_await move_along(moves.slots);
    if (!is_moved) co_return Say::unknown;
    free = moves.slots.front();
  }
  const std::uint64_t word = occupied(*fresh, now_->hash.filter(settings_.filter_bits));
  const bool is_known = co_await write_and_commit(*fresh, request, *free, word);
  co_return is_known ? Say::done : Say::unknown;
}

// Writes the entry, then stores the index word that names it; a known-bad variant stores the word first.
coro::Task<bool> TableServer::write_and_commit(std::uint32_t entry, rpc::Request request, std::uint64_t slot,
                                               std::uint64_t word) {
  if (rules_.switches_early) {
    const bool is_known = co_await commit(slot, word);
    co_await write_entry(entry, request);
    co_return is_known;
  }
  co_await write_entry(entry, request);
  co_return co_await commit(slot, word);
}

coro::Task<Say> TableServer::remove() {
  const std::optional<cuckoo::Table::Lookup> found = co_await look_up();
  if (!found) co_return Say::busy;
  if (!found->slot) co_return Say::not_found;
  const bool is_known = co_await commit(*found->slot, emptied());
  if (!is_known) co_return Say::unknown;
  let_go(cuckoo::IndexWord::entry(found->word));
  co_return Say::done;
}

// Moves keys along a cuckoo path, from its last move to its first, so that every key is in the table at every
// moment.
coro::Task<bool> TableServer::move_along(std::vector<std::uint64_t> slots) {
  const Nanos a_store = nic_ ? 0 : worker_.costs().copy(8);
  for (std::size_t left = slots.size() - 1; left > 0; --left) {
    const std::size_t i = rules_.moves_forward ? slots.size() - left : left;
    const std::uint64_t from = slots[i - 1], to = slots[i];
    const std::uint64_t word = row_->memory.word(from);
    const std::uint64_t moved = occupied(cuckoo::IndexWord::entry(word), cuckoo::IndexWord::filter(word));
    LOCH_PROBE("coupled.table.key-moved");
    ++row_->counts.moves;
    // Fill the target slot, then empty the source slot (a known-bad variant does it in reverse); each store
    // of a word costs CPU time.
    const Store fill{to, moved}, clear{from, emptied()};
    const Store first = rules_.clears_first ? clear : fill, second = rules_.clears_first ? fill : clear;
    const bool is_first_stored = co_await store(first.slot, first.word);
    if (!is_first_stored) co_return false;
    co_await worker_.compute(a_store);
    const bool is_second_stored = co_await store(second.slot, second.word);
    if (!is_second_stored) co_return false;
    co_await worker_.compute(a_store);
  }
  co_return true;
}

coro::Task<void> TableServer::write_entry(std::uint32_t entry, rpc::Request request) {
  const EntryLayout& layout = settings_.entry;
  fabric::Region& data = row_->memory.data();
  const std::uint64_t at = row_->memory.entry_at(entry);
  const std::uint64_t uses = fabric::load_word(data.at(at + layout.meta_at())) + 1;
  fabric::copy_to_shared(data.at(at), now_->key.data(), now_->key.size());
  fabric::store_word_release(data.at(at + layout.meta_at()), uses | watermark);
  const fabric::LocalSlice to{&data, at + layout.value_at()};
  co_await copy_value(to, request.frame);
  fabric::store_word_release(data.at(at + layout.tail_at()), watermark);
}

// Copies a value in two halves with simulated CPU time between, so that a concurrent READ can see a torn
// value.
TableServer::ValueCopy TableServer::value_copy(fabric::LocalSlice to, fabric::LocalSlice from) const {
  const std::uint64_t bytes = settings_.entry.value_bytes();
  const std::uint64_t kept =
      std::min(from.region->kept(from.offset, bytes), to.region->kept(to.offset, bytes));
  return {to, from, kept, kept / 16 * 8, (worker_.costs().copy(bytes) + 1) / 2};
}

void TableServer::ValueCopy::copy_first() const {
  if (half > 0) fabric::copy_shared(to.region->at(to.offset), from.region->at(from.offset), half);
}

void TableServer::ValueCopy::copy_rest() const {
  if (kept > half)
    fabric::copy_shared(to.region->at(to.offset + half), from.region->at(from.offset + half), kept - half);
}

coro::Task<void> TableServer::copy_value(fabric::LocalSlice to, fabric::LocalSlice from) {
  const ValueCopy copy = value_copy(to, from);
  copy.copy_first();
  co_await worker_.compute(copy.half_cost);
  copy.copy_rest();
  co_await worker_.compute(copy.half_cost);
}

coro::Task<bool> TableServer::commit(std::uint64_t slot, std::uint64_t word) {
  if (rules_.replies_early) {
    deferred_ = Store{slot, word};
    co_return true;
  }
  co_return co_await store(slot, word);
}

coro::Task<bool> TableServer::store(std::uint64_t slot, std::uint64_t word) {
  if (!nic_) {
    worker_.store_word(row_->memory.index(), row_->memory.word_at(slot), word);
    co_return true;
  }
  co_return co_await store_by_nic(slot, word);
}

coro::Task<bool> TableServer::store_by_nic(std::uint64_t slot, std::uint64_t word) {
  const std::optional<std::uint64_t> before = co_await word_by_nic(slot);
  if (!before) co_return false;
  const bool is_swapped = co_await nic_->swap(slot, *before, word);
  if (!is_swapped) co_return false;
  std::ranges::find(seen_, slot, &std::pair<std::uint64_t, std::uint64_t>::first)->second = word;
  co_return true;
}

coro::Task<void> TableServer::finish() {
  LOCH_CHECK(deferred_.has_value(), "nothing was deferred");
  co_await worker_.compute(worker_.costs().copy(8));
  const bool is_stored = co_await store(deferred_->slot, deferred_->word);
  static_cast<void>(is_stored);  // not used: the client has its reply already
  deferred_.reset();
  row_->is_changing = false;
}

void TableServer::let_go(std::uint32_t entry) {
  if (!rules_.has_readers || rules_.reuses_at_once) return row_->entries.release(entry);
  const Nanos margin = rules_.forgets_drift ? 0 : rules_.expiry / drift_share;
  row_->entries.retire(entry, worker_.now() + rules_.expiry + margin);
}

std::uint64_t TableServer::occupied(std::uint32_t entry, std::uint64_t filter) {
  ++row_->stores;
  return cuckoo::IndexWord::occupied(entry, rules_.word_repeats ? 0 : row_->stores, filter);
}

std::uint64_t TableServer::emptied() {
  ++row_->stores;
  return cuckoo::IndexWord::empty(rules_.empty_repeats ? 0 : row_->stores);
}

namespace {

// For a server worker whose node came back without its memory: waits until a client declares the node lost,
// initialises the worker's table as empty and marks it as serving. Repeats for further declarations until the
// run ends.
coro::Task<void> await_declaration(Tables* tables, fabric::Worker* worker, std::uint32_t index) {
  NodeTables& node = tables->local(worker->node());
  const fabric::WatchWord word{.region = node.membership,
                               .offset = std::uint64_t{index} * 8,
                               .value = static_cast<std::uint64_t>(Member::declared),
                               .until_equal = true,
                               .peer = std::nullopt};
  for (;;) {
    const fabric::WatchOutcome seen = co_await worker->watch(word);
    if (seen != fabric::WatchOutcome::ready) co_return;
    Row& row = *node.rows[index];
    if (!row.is_laid_out) tables->lay_out(row, *worker);
    worker->store_word(*node.membership, word.offset, static_cast<std::uint64_t>(Member::serves));
  }
}

}  // namespace

coro::Task<void> serve(Tables* tables, fabric::Worker* worker, std::uint32_t index) {
  coro::Scope alongside(worker->run_queue());
  if (!tables->local(worker->node()).rows[index]->is_laid_out)
    alongside.spawn(await_declaration(tables, worker, index));
  TableServer handler(*tables, *worker, index);
  rpc::WriteServer server(tables->channel(), *worker, index);
  co_await server.run(&handler);
  ServerCounts& counts = tables->local(worker->node()).rows[index]->counts;
  co_await alongside.join();
  counts.repeated += server.counts().repeated;
  counts.stale += server.counts().stale;
  counts.unanswered += server.counts().unanswered;
  counts.reconnects += server.counts().reconnects;
}

}  // namespace loch::coupled
