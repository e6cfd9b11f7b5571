// Fence, then scrub (H12): frees what dead clients held. It runs after the dead nodes' queue pairs
// are destroyed and their processes are known to be gone: a late local commit would otherwise be
// possible. A DTE's place says whose it is, since clients allocate on their own node.
//
//   PUT, tombstone   taken back: CAS to the word that it replaced, or to EMPTY
//   MIGRATE's copy   committed if its source holds EMPTY|id of this copy, else dropped. ("The source
//                    has changed" would be wrong: a DELETE may have changed it, and the copy would
//                    bring the value back from the dead.)
//   a tag            of a copy that is in no slot, because its target was declared lost: EMPTY without it
#include <algorithm>
#include <set>
#include <utility>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "nessie/session.h"

namespace loch::nessie {

coro::Task<kv::Repair> Session::scrub(std::vector<kv::ClientId> dead) {
  kv::Repair repaired;
  is_repairing_ = true;
  store_.abandon(dead);
  Counts& counts = repaired.counts;
  std::vector<Finding> held;
  std::vector<Finding> tags;
  bool is_whole = true;
  // The workers of a node own its entries round robin (A6: two workers of a node, one of them dead).
  const auto is_dead = [&](const EntryId& id) {
    const kv::ClientId owner{static_cast<fabric::NodeId>(id.node),
                             static_cast<std::uint16_t>(id.index % settings_.config.client_workers)};
    const auto is_on_the_node = [&](const kv::ClientId& each) { return each.node == owner.node; };
    if (has(Flaw::scrub_takes_nodes)) return std::ranges::any_of(dead, is_on_the_node);
    return std::ranges::find(dead, owner) != dead.end();
  };
  for (std::uint32_t node = 0; node < settings_.config.nodes; ++node) {
    std::vector<Finding> found;
    const bool is_read = co_await scan_index(node, &found);
    if (!is_read) {
      ++counts["index_unreachable"];
      is_whole = false;
    }
    for (const Finding& each : found) {
      if (!is_dead(settings_.format.entry(each.word))) continue;
      (settings_.format.is_empty(each.word) ? tags : held).push_back(each);
    }
  }
  counts["entries_examined"] = held.size();
  std::set<std::uint32_t> silent;  // nodes that did not answer: one wait for each, not one for each entry
  for (const Finding& each : held) {
    const std::uint32_t node = settings_.format.entry(each.word).node;
    std::string kind = "unreachable";
    if (!silent.contains(node)) kind = co_await repair(each);
    if (kind == "unreachable" && !worker_.connected(static_cast<fabric::NodeId>(node))) silent.insert(node);
    if (kind == "unreachable" || kind == "raced") repaired.is_complete = false;
    if (!kind.empty()) ++counts[kind];
  }
  if (!is_whole) {
    repaired.is_complete = false;
  } else if (settings_.scrub_repairs && !has(Flaw::scrub_keeps_tags)) {
    for (const Finding& each : tags) {
      const EntryId copy = settings_.format.entry(each.word);
      const auto names_it = [&](const Finding& other) { return settings_.format.names(other.word, copy); };
      if (std::ranges::any_of(held, names_it)) continue;  // repaired, or to be repaired
      const std::string kind = co_await free_reserved(each);
      if (kind == "unreachable") repaired.is_complete = false;
      if (!kind.empty()) ++counts[kind];
    }
  }
  if (settings_.scrub_finds_leaks && settings_.scrub_repairs) {
    const LeakScan leaks = co_await stamp_leaks();
    counts["leaks_suspected"] = leaks.found;
    repaired.is_complete = repaired.is_complete && leaks.is_whole;
  }
  co_return repaired;
}

// Every word of one share of the index that names an entry (tags included), by READs of many at a time.
coro::Task<bool> Session::scan_index(std::uint32_t share, std::vector<Finding>* found) {
  const fabric::LocalSlice landing{node_.words, word_at(lane_scan)};
  for (std::uint64_t slot = 0; slot < settings_.slots_per_node; slot += scan_words) {
    const auto count =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(scan_words, settings_.slots_per_node - slot));
    bool is_read = false;
    for (int attempt = 0; attempt < 2 && !is_read; ++attempt) {
      const IndexShare from = own_.shares[share];
      if (from.is_void) co_return false;
      const fabric::Completion done =
          co_await worker_.read(from.index, from.base + slot * 8, landing, count * 8);
      is_read = done.ok();
      if (is_read) break;
      const bool is_back = co_await reconnect(from.index.node);
      if (!is_back) co_return false;
    }
    if (!is_read) co_return false;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Word word = fabric::load_word(node_.words->at(landing.offset + 8ULL * i));
      if (!WordFormat::is_stored(word)) co_return false;  // nobody laid it out
      if (settings_.format.is_empty(word) && !settings_.format.is_tagged(word)) continue;
      found->push_back({{share, slot + i}, word});
    }
  }
  co_return true;
}

// What was done about one entry of a dead node; empty if it is committed.
coro::Task<std::string> Session::repair(Finding finding) {
  stats_ = nullptr;
  started_ = worker_.now();
  const Fetched entry = co_await fetch(finding.word, Extent::header);
  if (!entry.ok) co_return "unreachable";  // or gone with its memory: declare_lost
  if (is_committed(finding.word, entry.meta)) {
    if (entry.meta.is_valid) co_return std::string();
    // Committed by CAS, and the client died before it wrote so into the entry: a move's source would stay
    // reserved for ever.
    LOCH_PROBE("nessie.scrub-completes-commit");
    EntryMeta valid = entry.meta;
    valid.is_valid = true;
    const EntryId id = settings_.format.entry(finding.word);
    const bool is_written = co_await write_remote_word(id, settings_.entry.meta_at(), valid.pack());
    co_return is_written ? "commits_completed" : "unreachable";
  }
  const bool is_copy = entry.meta.kind == EntryKind::copy;
  const bool is_tombstone = entry.meta.kind == EntryKind::tombstone;
  if (!settings_.scrub_repairs)
    co_return is_copy ? "held_copies" : is_tombstone ? "held_deletes" : "held_puts";
  if (is_copy) co_return co_await repair_copy(finding, entry.meta);
  const Word to = entry.prev != 0 ? entry.prev : settings_.format.emptied(finding.word);
  const Swap swap = co_await swap_index(finding.place, finding.word, to, Proof::expected_ours);
  if (!swap.done()) co_return "raced";
  const EntryId id = settings_.format.entry(finding.word);
  co_await recycle(id);
  co_return is_tombstone ? "deletes_taken_back" : "puts_taken_back";
}

coro::Task<std::string> Session::repair_copy(Finding finding, EntryMeta meta) {
  if (!settings_.rules.migrate_tags) co_return "copies_undecidable";
  const EntryLayout& entry = settings_.entry;
  // fetch() has left the header in the landing buffer, or the entry is in this node's table.
  const EntryId id = settings_.format.entry(finding.word);
  const bool is_here = id.node == node_.node;
  const fabric::Region& region = is_here ? *node_.data : *node_.landing;
  const std::uint64_t at = is_here ? own_.table.offset(id.index) : landing_base_;
  moved_key_.resize(entry.key_size());
  fabric::copy_from_shared(moved_key_.data(), region.at(at), entry.key_size());
  cuckoo::KeyHash hash = settings_.family.hash(moved_key_);
  const cuckoo::Place source =
      hash.candidate(std::min<std::uint32_t>(meta.source_rank, settings_.functions() - 1));
  const WordRead read = co_await read_index(source);
  if (!read.ok) co_return "unreachable";
  bool is_emptied = read.word == settings_.format.tagged(finding.word);
  if (has(Flaw::scrub_by_change)) is_emptied = settings_.format.is_empty(read.word);
  if (is_emptied) {
    if (settings_.rules.commit == Commit::cas) {
      const Swap swap = co_await swap_index(finding.place, finding.word,
                                            settings_.format.committed(finding.word), Proof::expected_ours);
      if (!swap.done()) co_return "raced";
    }
    EntryMeta committed = meta;
    committed.is_valid = true;
    const bool is_written = co_await write_remote_word(id, entry.meta_at(), committed.pack());
    if (!is_written) co_return "unreachable";
    co_return "copies_committed";  // the entry that was copied is nobody's now: the leak scan's
  }
  const Swap swap = co_await swap_index(finding.place, finding.word, settings_.format.emptied(finding.word),
                                        Proof::expected_ours);
  if (!swap.done()) co_return "raced";
  co_await recycle(id);
  co_return "copies_dropped";
}

// A slot that a dead client's MIGRATE has emptied, while the copy is in no slot: the share of its target was
// declared lost. The copy's generation is never linked again, so that the slot's word is one that it never
// had. What was done about it; empty if it is not reserved.
coro::Task<std::string> Session::free_reserved(Finding tag) {
  stats_ = nullptr;
  started_ = worker_.now();
  const Reserve reserve = co_await is_reserved(tag.word);
  if (reserve == Reserve::failed) co_return "unreachable";
  if (reserve == Reserve::free) co_return std::string();
  const Word emptied = settings_.format.emptied(tag.word);
  const Swap swap = co_await swap_index(tag.place, tag.word, emptied, Proof::none);
  co_return swap.done() ? "slots_freed" : swap.outcome == Swap::Outcome::unknown ? "unreachable" : "";
}

coro::Task<bool> Session::write_remote_word(EntryId id, std::uint32_t within, Word word) {
  const std::uint64_t at = id.index * settings_.entry.stride() + within;
  if (id.node == node_.node) {
    fabric::store_word_release(node_.data->at(at), word);
    co_return true;
  }
  const fabric::LocalSlice source{node_.words, word_at(lane_stamp)};
  fabric::store_word_release(node_.words->at(source.offset), word);
  const auto peer = static_cast<fabric::NodeId>(id.node);
  const fabric::Completion done = co_await worker_.write(own_.peers[peer].data, at, source, 8, stats_);
  co_return done.ok();
}

}  // namespace loch::nessie
