// Repairs what dead clients left in the index: scans all index words and repairs each entry of a dead
// client.
#include "nessie/scrub.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "nessie/entry.h"
#include "nessie/index.h"
#include "nessie/leaks.h"
#include "nessie/scan.h"
#include "nessie/slot.h"
#include "nessie/stamps.h"

namespace loch::nessie {
namespace {

// Writes one word of an entry, on this or another node. Returns false if the entry's node cannot be
// reached.
coro::Task<bool> write_remote_word(Access access, EntryId id, std::uint32_t within, Word word) {
  const std::uint64_t at = id.index * access.settings().entry.stride() + within;
  if (id.node == access.node().node) {
    fabric::store_word_release(access.node().data->at(at), word);
    co_return true;
  }
  const fabric::LocalSlice source{access.node().words, access.lane.word_at(lane_stamp)};
  fabric::store_word_release(access.node().words->at(source.offset), word);
  const auto peer = static_cast<fabric::NodeId>(id.node);
  const fabric::Completion done =
      co_await access.worker().write(access.own().peers[peer].data, at, source, 8, access.stats);
  co_return done.ok();
}

// Repairs a dead client's copy that was never committed; `found` is what fetch() has just read.
coro::Task<std::string> repair_copy(Access access, Finding finding, Fetched found) {
  const Settings& settings = access.settings();
  Lane& lane = access.lane;
  if (!settings.rules.migrate_tags) co_return "copies_undecidable";
  const EntryLayout& entry = settings.entry;
  const EntryId id = settings.format.entry(finding.word);
  fabric::copy_from_shared(lane.key.data(), found.region->at(found.offset), entry.key_size());
  cuckoo::KeyHash hash = settings.family.hash(lane.key);
  const cuckoo::Place source =
      hash.candidate(std::min<std::uint32_t>(found.meta.source_rank, settings.functions() - 1));
  const WordRead read = co_await read_index(access, source);
  if (!read.ok) co_return "unreachable";
  // The copy of an entry on a memory node is valid before a commit by CAS: then the source was emptied.
  bool is_emptied = read.word == settings.format.tagged(finding.word) || found.meta.is_valid;
  if (lane.has(Flaw::scrub_by_change)) is_emptied = settings.format.is_empty(read.word);
  if (is_emptied) {
    EntryMeta committed = found.meta;
    committed.is_valid = true;
    if (settings.is_remote()) {  // before the CAS, after which others may replace and reuse the entry
      const bool is_written = co_await write_remote_word(access, id, entry.meta_at(), committed.pack());
      if (!is_written) co_return "unreachable";
    }
    if (settings.rules.commit == Commit::cas) {
      const Swap swap = co_await swap_index(access, finding.place, finding.word,
                                            settings.format.committed(finding.word), Proof::expected_ours);
      if (!swap.done()) co_return "raced";
    }
    if (!settings.is_remote()) {
      const bool is_written = co_await write_remote_word(access, id, entry.meta_at(), committed.pack());
      if (!is_written) co_return "unreachable";
    }
    // the entry that was copied has left the index but is not marked for reuse; the leak scan finds it
    co_return "copies_committed";
  }
  const Swap swap = co_await swap_index(access, finding.place, finding.word,
                                        settings.format.emptied(finding.word), Proof::expected_ours);
  if (!swap.done()) co_return "raced";
  co_await recycle(access, id);
  co_return "copies_dropped";
}

// Repairs one entry of a dead client and returns the kind of repair; empty if the entry is committed.
coro::Task<std::string> repair(Access access, Finding finding) {
  const Settings& settings = access.settings();
  const Fetched entry = co_await fetch(access, finding.word, Extent::header);
  if (!entry.ok) co_return "unreachable";  // node out of reach, or memory lost: left to declare_lost
  if (is_committed(settings, finding.word, entry.meta)) {
    // With entries on memory nodes the copy that a MIGRATE (move of a key) makes is valid before it is
    // committed.
    if (entry.meta.is_valid || settings.is_remote()) co_return std::string();
    // The word was committed by CAS, and the client died before it set the entry's valid bit; without
    // that bit the MIGRATE's source slot would stay reserved for ever.
    LOCH_PROBE("nessie.scrub-completes-commit");
    EntryMeta valid = entry.meta;
    valid.is_valid = true;
    const EntryId id = settings.format.entry(finding.word);
    const bool is_written = co_await write_remote_word(access, id, settings.entry.meta_at(), valid.pack());
    co_return is_written ? "commits_completed" : "unreachable";
  }
  const bool is_copy = entry.meta.kind == EntryKind::copy;
  const bool is_tombstone = entry.meta.kind == EntryKind::tombstone;
  if (!settings.scrub_repairs)
    co_return is_copy ? "held_copies" : is_tombstone ? "held_deletes" : "held_puts";
  if (is_copy) co_return co_await repair_copy(access, finding, entry);
  const Word to = entry.prev != 0 ? entry.prev : settings.format.emptied(finding.word);
  const Swap swap = co_await swap_index(access, finding.place, finding.word, to, Proof::expected_ours);
  if (!swap.done()) co_return "raced";
  const EntryId id = settings.format.entry(finding.word);
  co_await recycle(access, id);
  co_return is_tombstone ? "deletes_taken_back" : "puts_taken_back";
}

// Frees a slot that a dead client's MIGRATE (move of a key) has emptied and reserved, while the MIGRATE's
// copy is in no slot because the target's share of the index was declared lost. The CAS writes an EMPTY word
// that the slot has never held: that word names the copy's generation, which is never linked again. Returns
// the kind of repair; empty if the slot is not reserved.
coro::Task<std::string> free_reserved(Access access, Finding tag) {
  const Reserve reserve = co_await is_reserved(access, tag.word);
  if (ended_by(reserve)) co_return "unreachable";
  if (reserve == Reserve::free) co_return std::string();
  const Word emptied = access.settings().format.emptied(tag.word);
  const Swap swap = co_await swap_index(access, tag.place, tag.word, emptied, Proof::none);
  co_return swap.done() ? "slots_freed" : swap.outcome == Swap::Outcome::unknown ? "unreachable" : "";
}

// Index words that name entries of dead clients.
struct Held {
  std::vector<Finding> words;  // occupied words that name entries of dead clients
  std::vector<Finding> tags;   // EMPTY words that reserve slots for copies of dead clients' MIGRATEs
  bool is_whole = true;        // false: a share (one node's part) of the index could not be read
};

// Whether the entry of a memory node was written by a dead worker; none: the entry could not be read. Of a
// node that came back with empty memory there is nothing to repair.
coro::Task<std::optional<bool>> is_by_dead(Lane* lane, const std::vector<kv::ClientId>* dead, Word word) {
  const kv::DeployConfig& config = lane->settings.config;
  const Access access = begin_repair(*lane);
  const Fetched entry = co_await fetch(access, word, Extent::header);
  const auto wrote = [&](const kv::ClientId& each) {
    return config.drives(each.node) && entry.meta.writer == config.client_number(each.node, each.worker) + 1;
  };
  if (entry.ok) co_return std::ranges::any_of(*dead, wrote);
  const bool is_gone = lane->own.peers[lane->settings.format.entry(word).node].is_gone;
  co_return is_gone ? std::optional(false) : std::nullopt;
}

// Whether the entry belongs to a dead worker. The workers of a node own its entries round robin, and other
// workers of the node may live.
bool is_of_dead(const Lane& lane, const std::vector<kv::ClientId>& dead, const EntryId& id) {
  const kv::ClientId owner{static_cast<fabric::NodeId>(id.node),
                           static_cast<std::uint16_t>(id.index % lane.settings.config.client_workers)};
  const auto is_on_the_node = [&](const kv::ClientId& each) { return each.node == owner.node; };
  if (lane.has(Flaw::scrub_takes_nodes)) return std::ranges::any_of(dead, is_on_the_node);
  return std::ranges::find(dead, owner) != dead.end();
}

coro::Task<void> ask_for_writer(Lane* lane, const std::vector<kv::ClientId>* dead, Word word,
                                std::optional<bool>* is_held) {
  const std::optional<bool> answer = co_await is_by_dead(lane, dead, word);
  *is_held = answer;
}

// Adds those of the words, whose entries lie on memory nodes, that name entries which the dead wrote.
coro::Task<void> add_remote(RepairLanes* lanes, const std::vector<kv::ClientId>* dead,
                            std::vector<Finding> found, Held* held, kv::Repair* repaired) {
  // A tag needs no repair, because no share of the index is ever declared lost.
  const WordFormat& format = lanes->first().settings.format;
  std::erase_if(found, [&](const Finding& each) { return format.is_empty(each.word); });
  std::vector<std::optional<bool>> are_held(found.size());
  const RepairLanes::Repair ask = [&](Lane* lane, std::size_t i) {
    return ask_for_writer(lane, dead, found[i].word, &are_held[i]);
  };
  co_await lanes->each(found.size(), &ask);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!are_held[i]) {
      ++repaired->counts["unreachable"];
      held->is_whole = false;
    } else if (*are_held[i]) {
      held->words.push_back(found[i]);
    }
  }
}

coro::Task<Held> find_held(RepairLanes* lanes, const std::vector<kv::ClientId>* dead, kv::Repair* repaired) {
  Lane* const lane = &lanes->first();
  const Settings& settings = lane->settings;
  Held held;
  for (std::uint32_t node = 0; node < settings.config.serving_nodes(); ++node) {
    std::vector<Finding> found;
    const bool is_read = co_await scan_index(lane, node, &found);
    if (!is_read) {
      ++repaired->counts["index_unreachable"];
      held.is_whole = false;
    }
    if (settings.is_remote()) {
      co_await add_remote(lanes, dead, found, &held, repaired);
      continue;
    }
    for (const Finding& each : found) {
      if (!is_of_dead(*lane, *dead, settings.format.entry(each.word))) continue;
      (settings.format.is_empty(each.word) ? held.tags : held.words).push_back(each);
    }
  }
  co_return held;
}

// Nodes that the repair could not reach; their other entries are not tried.
using SilentNodes = std::set<std::uint32_t>;

coro::Task<void> repair_entry(Lane* lane, Finding held, SilentNodes* silent, kv::Repair* repaired) {
  const std::uint32_t node = lane->settings.format.entry(held.word).node;
  std::string kind = "unreachable";
  if (!silent->contains(node)) {
    const std::string done = co_await repair(begin_repair(*lane), held);
    kind = done;
  }
  if (kind == "unreachable" && !lane->worker.connected(static_cast<fabric::NodeId>(node)))
    silent->insert(node);
  if (kind == "unreachable" || kind == "raced") repaired->is_complete = false;
  if (!kind.empty()) ++repaired->counts[kind];
}

coro::Task<void> repair_entries(RepairLanes* lanes, const std::vector<Finding>* held, kv::Repair* repaired) {
  SilentNodes silent;
  const RepairLanes::Repair repair_one = [&](Lane* lane, std::size_t i) {
    return repair_entry(lane, (*held)[i], &silent, repaired);
  };
  co_await lanes->each(held->size(), &repair_one);
}

coro::Task<void> free_tag(Lane* lane, Finding tag, const Held* held, kv::Repair* repaired) {
  const WordFormat& format = lane->settings.format;
  const EntryId copy = format.entry(tag.word);
  const auto names_it = [&](const Finding& other) { return format.names(other.word, copy); };
  // repair_entries() has already repaired a copy that an occupied word names
  if (std::ranges::any_of(held->words, names_it)) co_return;
  const std::string kind = co_await free_reserved(begin_repair(*lane), tag);
  if (kind == "unreachable") repaired->is_complete = false;
  if (!kind.empty()) ++repaired->counts[kind];
}

coro::Task<void> free_tags(RepairLanes* lanes, const Held* held, kv::Repair* repaired) {
  const RepairLanes::Repair free_one = [&](Lane* lane, std::size_t i) {
    return free_tag(lane, held->tags[i], held, repaired);
  };
  co_await lanes->each(held->tags.size(), &free_one);
}

}  // namespace

coro::Task<kv::Repair> scrub(RepairLanes* lanes, std::vector<kv::ClientId> dead) {
  const Lane& lane = lanes->first();
  const Settings& settings = lane.settings;
  kv::Repair repaired;
  lane.store.abandon(dead);
  const Held held = co_await find_held(lanes, &dead, &repaired);
  repaired.counts["entries_examined"] = held.words.size();
  co_await repair_entries(lanes, &held.words, &repaired);
  if (!held.is_whole) {
    repaired.is_complete = false;
  } else if (settings.scrub_repairs && !lane.has(Flaw::scrub_keeps_tags)) {
    co_await free_tags(lanes, &held, &repaired);
  }
  if (settings.scrub_finds_leaks && settings.scrub_repairs) {
    const LeakScan leaks = co_await stamp_leaks(lanes);
    repaired.counts["leaks_suspected"] = leaks.found;
    repaired.is_complete = repaired.is_complete && leaks.is_whole;
  }
  co_return repaired;
}

}  // namespace loch::nessie
