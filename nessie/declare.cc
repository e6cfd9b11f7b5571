// Declares nodes lost: tells all members, fills the index shares that the nodes held with EMPTY words, and
// empties all words that name lost memory.
#include "nessie/declare.h"

#include <algorithm>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "nessie/index.h"
#include "nessie/leaks.h"
#include "nessie/member_table.h"
#include "nessie/reach.h"
#include "nessie/scan.h"

namespace loch::nessie {
namespace {

// Fills an area of a node (room for one share of the index) with EMPTY words. Returns false if the node
// cannot be reached.
coro::Task<bool> fill_area(Lane* lane, Member place) {
  const fabric::LocalSlice source = lane->scan_buffer();
  const std::uint64_t most = std::min(lane->settings.scan_bytes(), most_bytes_of_a_scan) / 8;
  const auto host = static_cast<fabric::NodeId>(place.host);
  const Word empty = lane->settings.format.initial_empty(place.incarnation);
  int tries_left = 8;
  for (std::uint64_t slot = 0; slot < lane->settings.slots_per_node;) {
    const auto count = static_cast<std::uint32_t>(std::min(most, lane->settings.slots_per_node - slot));
    for (std::uint32_t i = 0; i < count; ++i)
      fabric::store_word_release(source.region->at(source.offset + 8ULL * i), empty);
    const Result<fabric::RemoteRegion> region = lane->store.fabric().lookup(host, index_region);
    if (!region.has_value()) co_return false;
    const fabric::RemoteRegion remote = *region;
    const std::uint64_t at = place.area * lane->settings.share_bytes() + slot * 8;
    const fabric::Completion done = co_await lane->worker.write(remote, at, source, 8 * count);
    if (done.ok()) {
      slot += count;
      continue;
    }
    const bool is_back = co_await reconnect(lane, host);
    if (!is_back || --tries_left == 0) co_return false;
  }
  const fabric::LocalSlice scratch{lane->node.words, lane->word_at(lane_flush)};
  const Result<fabric::RemoteRegion> region = lane->store.fabric().lookup(host, index_region);
  if (!region.has_value()) co_return false;
  const fabric::RemoteRegion remote = *region;
  const fabric::Completion seen =
      co_await lane->worker.read(remote, place.area * lane->settings.share_bytes(), scratch, 8);
  co_return seen.ok();
}

// Places a share of the index that lies on no node onto a node that is up, and fills it with EMPTY words. No
// operation uses the share meanwhile.
coro::Task<bool> lay_out_share(Lane* lane, std::uint32_t share, Survey* survey,
                               std::vector<fabric::NodeId> lost) {
  const Member before = survey->members.of[share];
  std::vector<Member> places;
  if (survey->is_up[before.host]) places.push_back({before.host, before.area, before.incarnation, false});
  for (std::uint32_t area = 1; area <= lane->settings.spare_shares; ++area) {
    for (std::uint32_t step = 1; step < lane->settings.config.nodes; ++step) {
      const std::uint32_t host = (share + step) % lane->settings.config.nodes;
      const auto is_taken = [&](const Member& other) { return other.host == host && other.area == area; };
      const bool is_free = std::ranges::none_of(survey->members.of, is_taken);
      if (survey->is_up[host] && !is_among(lost, host) && is_free)
        places.push_back({host, area, before.incarnation, false});
    }
  }
  for (const Member& place : places) {
    const bool is_filled = co_await fill_area(lane, place);
    if (!is_filled) continue;
    if (place.host == before.host) LOCH_PROBE("nessie.share-laid-out-in-place");
    if (place.host != before.host) LOCH_PROBE("nessie.share-adopted");
    survey->members.of[share] = place;
    co_return true;
  }
  LOCH_PROBE("nessie.share-without-a-place");
  co_return false;
}

// Empties every word that names lost memory, and has the owners look at the entries that leaked.
coro::Task<bool> bury_all(RepairLanes* lanes, std::map<std::string, std::uint64_t>* counts) {
  Lane& lane = lanes->first();
  bool is_whole = true;
  const std::uint64_t before = lane.own.counters.lost_words_buried;
  for (std::uint32_t node = 0; node < lane.settings.config.nodes; ++node) {
    std::vector<Finding> found;
    const bool is_read = co_await scan_index(&lane, node, &found);
    std::erase_if(found, [&](const Finding& each) { return !names_lost_memory(lane, each.word); });
    const bool are_emptied = co_await empty_lost(lanes, &found);
    is_whole = is_whole && is_read && are_emptied;
  }
  (*counts)["words_emptied"] += lane.own.counters.lost_words_buried - before;
  // Entries that were named only by words of the lost nodes' shares of the index are reported to their
  // owners, who check and free them.
  const LeakScan leaks = co_await stamp_leaks(lanes);
  (*counts)["leaks_suspected"] += leaks.found;
  co_return is_whole&& leaks.is_whole;
}

// Whether a node that is not in `lost` is unreachable. That node alone may have the newest member table
// (which tells where the shares of the index lie); with an older member table, the declaration would fill
// with EMPTY words a share of the index that is in use again and holds values.
bool is_anyone_missing(const Lane& lane, const std::vector<fabric::NodeId>& lost, const Survey& survey) {
  if (lane.has(Flaw::declares_by_some)) return false;
  for (std::uint32_t node = 0; node < lane.settings.config.nodes; ++node) {
    if (!survey.is_up[node] && !is_among(lost, node)) return true;
  }
  return false;
}

// Gives the lost nodes new incarnations and returns those nodes. Skips a node that an earlier, incomplete
// call has declared lost, because that node may hold values again.
std::vector<fabric::NodeId> begin_declaring(Lane& lane, const std::vector<fabric::NodeId>& lost,
                                            Survey* survey, kv::Repair* done) {
  std::vector<fabric::NodeId> losing;
  for (const fabric::NodeId node : lost) {
    const bool is_up = survey->is_up[node];
    Member& member = survey->members.of[node];
    lane.own.peers[node].is_gone = !is_up;
    if (is_up) {
      // The node is reachable again, but its memory may have been lost.
      LOCH_PROBE("nessie.lost-node-is-back");
      ++done->counts["nodes_back"];
    }
    // If an earlier call has announced a new incarnation of the node, that incarnation is kept, because a
    // node that has come back uses its new incarnation as soon as it learns of it.
    const std::optional<std::uint32_t> begun = lane.store.declared_as(node);
    if (begun == member.incarnation && !(is_up && survey->is_new[node])) {
      LOCH_PROBE("nessie.declaration-goes-on");
      continue;
    }
    losing.push_back(node);
    if (!lane.has(Flaw::no_new_incarnation)) ++member.incarnation;
    lane.store.begin_declaration(node, member.incarnation);
  }
  return losing;
}

// Marks the shares of the index that the lost nodes held as void (they lie on no node) and returns all void
// shares.
std::vector<std::uint32_t> take_shares(const std::vector<fabric::NodeId>& losing, MemberTable* members) {
  std::vector<std::uint32_t> shares;
  for (std::uint32_t share = 0; share < members->of.size(); ++share) {
    Member& member = members->of[share];
    if (!is_among(losing, member.host) && !member.is_void) continue;
    member.is_void = true;
    shares.push_back(share);
  }
  return shares;
}

}  // namespace

coro::Task<kv::Repair> declare_lost(RepairLanes* lanes, std::vector<fabric::NodeId> lost) {
  Lane* const lane = &lanes->first();
  kv::Repair done;
  if (!lane->settings.format.has_incarnation() || lane->settings.is_remote()) {
    // In the published variant index words name no incarnation, so that words that name lost memory cannot be
    // told from others. Memory nodes have no workers that would learn of their new incarnation.
    done.is_complete = false;
    ++done.counts["undecidable"];
    co_return done;
  }
  Survey survey = co_await survey_members(lane);
  if (is_anyone_missing(*lane, lost, survey)) {
    LOCH_PROBE("nessie.declare-needs-all");
    done.is_complete = false;
    ++done.counts["members_unreachable"];
    co_return done;
  }
  const std::vector<fabric::NodeId> losing = begin_declaring(*lane, lost, &survey, &done);
  const std::vector<std::uint32_t> shares = take_shares(losing, &survey.members);
  ++survey.members.version;
  done.counts["nodes_declared"] += losing.size();
  const bool are_all_told = co_await tell_members(lane, lost, &survey);
  if (!are_all_told) {
    LOCH_PROBE("nessie.declare-interrupted");
    done.is_complete = false;
    ++done.counts["members_unreachable"];
    co_return done;
  }
  for (const std::uint32_t share : shares) {
    const bool is_laid_out = co_await lay_out_share(lane, share, &survey, lost);
    ++done.counts[is_laid_out ? "shares_laid_out" : "shares_without_a_place"];
    done.is_complete = done.is_complete && is_laid_out;
  }
  ++survey.members.version;
  const bool were_told = co_await tell_members(lane, lost, &survey);
  look_at_members(*lane);
  const bool is_swept = co_await bury_all(lanes, &done.counts);
  done.is_complete = done.is_complete && were_told && is_swept;
  if (done.is_complete) {
    for (const fabric::NodeId node : lost) lane->store.end_declaration(node);
  }
  co_return done;
}

}  // namespace loch::nessie
