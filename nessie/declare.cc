// Nodes that are lost with their memory (A4). "Failed nodes can be re-added or replaced" (2017, 7) says that
// it can be done, not how; this is how.
//
// Until the declaration, what a lost node held is an error and never a miss. The fabric has fenced the node:
// nobody reaches its memory and nothing of its workers executes any more. Then one survivor
//   1. tells every member the new incarnation of the lost nodes, and that the shares of the index that they
//      hosted lie nowhere: from here on words that name the old incarnation are nobody's (Session::bury), and
//      no operation holds on to an old place;
//   2. lays those shares out again, EMPTY: on the node itself if it is back, else in an area that a survivor
//      keeps for the purpose (nessie.spare-shares);
//   3. tells every member where they lie now;
//   4. empties every word that names lost memory (what a rollback brings back later is emptied by who rolls
//      back, or else by whoever meets it), and has the entries looked for that only lost shares named.
// A call that could not reach somebody is made again: the store remembers which nodes have their new
// incarnation, so that what they hold by then is not declared lost a second time.
#include <algorithm>
#include <utility>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "nessie/members.h"
#include "nessie/session.h"

namespace loch::nessie {
namespace {

bool is_among(const std::vector<fabric::NodeId>& nodes, std::uint32_t node) {
  return std::ranges::find(nodes, node) != nodes.end();
}

}  // namespace

coro::Task<kv::Repair> Session::declare_lost(std::vector<fabric::NodeId> lost) {
  kv::Repair done;
  is_repairing_ = true;
  stats_ = nullptr;
  started_ = worker_.now();
  if (!settings_.format.has_incarnation()) {
    done.is_complete = false;  // published: a word does not say of which incarnation it is
    ++done.counts["undecidable"];
    co_return done;
  }
  MemberTable members;
  members.of.resize(settings_.config.nodes);
  std::vector<bool> is_up(settings_.config.nodes, false);
  std::vector<bool> is_new(settings_.config.nodes, false);
  co_await collect_members(&members, &is_up, &is_new);
  // Who is not lost and cannot be asked may know of a newer table than anybody else: what was laid out by it,
  // and holds values since, would be laid out again.
  for (std::uint32_t node = 0; node < settings_.config.nodes; ++node) {
    if (is_up[node] || is_among(lost, node) || has(Flaw::declares_by_some)) continue;
    LOCH_PROBE("nessie.declare-needs-all");
    done.is_complete = false;
    ++done.counts["members_unreachable"];
    co_return done;
  }
  // Of those that this call is to declare: one that an earlier call has declared, which was not complete, may
  // hold values again by now.
  std::vector<fabric::NodeId> losing;
  for (const fabric::NodeId node : lost) {
    own_.peers[node].is_gone = !is_up[node];
    if (is_up[node]) {
      // Back, and yet its memory may be as void as that of one that is not.
      LOCH_PROBE("nessie.lost-node-is-back");
      ++done.counts["nodes_back"];
    }
    // What was told of it is kept: a node that is back uses its new incarnation from the moment it is told.
    const std::optional<std::uint32_t> begun = store_.declared_as(node);
    if (begun == members.of[node].incarnation && !(is_up[node] && is_new[node])) {
      LOCH_PROBE("nessie.declaration-goes-on");
      continue;
    }
    losing.push_back(node);
    if (!has(Flaw::no_new_incarnation)) ++members.of[node].incarnation;
    store_.begin_declaration(node, members.of[node].incarnation);
  }
  std::vector<std::uint32_t> shares;
  for (std::uint32_t share = 0; share < settings_.config.nodes; ++share) {
    Member& member = members.of[share];
    if (!is_among(losing, member.host) && !member.is_void) continue;
    member.is_void = true;
    shares.push_back(share);
  }
  ++members.version;
  done.counts["nodes_declared"] += losing.size();
  done.is_complete = co_await tell_members(members, lost, &is_up);
  if (!done.is_complete) {
    LOCH_PROBE("nessie.declare-interrupted");
    ++done.counts["members_unreachable"];
    co_return done;
  }
  for (const std::uint32_t share : shares) {
    const bool is_laid_out = co_await lay_out_share(share, &members, is_up, lost);
    if (is_laid_out) {
      ++done.counts["shares_laid_out"];
    } else {
      ++done.counts["shares_without_a_place"];
      done.is_complete = false;
    }
  }
  ++members.version;
  const bool were_told = co_await tell_members(members, lost, &is_up);
  done.is_complete = done.is_complete && were_told;
  look_at_members();
  const bool is_swept = co_await bury_all(&done.counts);
  done.is_complete = done.is_complete && is_swept;
  if (done.is_complete) {
    for (const fabric::NodeId node : lost) store_.end_declaration(node);
  }
  co_return done;
}

// The newest table that any member has: a declaration that was interrupted has told some of them. Who answers
// is up; who was told nothing has fresh memory, where others were.
coro::Task<void> Session::collect_members(MemberTable* members, std::vector<bool>* is_up,
                                          std::vector<bool>* is_new) {
  const std::uint32_t nodes = settings_.config.nodes;
  for (std::uint32_t i = 0; i < nodes; ++i) members->of[i] = Member::initial(i);
  for (std::uint32_t node = 0; node < nodes; ++node) {
    const auto peer = static_cast<fabric::NodeId>(node);
    MemberTable theirs;
    theirs.of.resize(nodes);
    bool is_read = co_await read_member_words(peer, &theirs);
    if (!is_read) {
      const bool is_back = co_await reconnect(peer);
      if (is_back) is_read = co_await read_member_words(peer, &theirs);
    }
    (*is_up)[node] = is_read;
    (*is_new)[node] = is_read && theirs.version == 0;
    if (is_read && theirs.version > members->version) *members = theirs;
  }
}

coro::Task<bool> Session::read_member_words(fabric::NodeId peer, MemberTable* out) {
  const fabric::LocalSlice landing{node_.words, word_at(lane_scan)};
  const auto words = static_cast<std::uint32_t>(out->of.size() + 1);
  for (std::uint32_t first = 0; first < words; first += scan_words) {
    const std::uint32_t count = std::min(scan_words, words - first);
    const Result<fabric::RemoteRegion> region = store_.fabric().lookup(peer, members_region);
    if (!region.has_value()) co_return false;
    const fabric::RemoteRegion remote = *region;
    const fabric::Completion read = co_await worker_.read(remote, 8ULL * first, landing, 8 * count);
    if (!read.ok()) co_return false;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Word word = fabric::load_word(node_.words->at(landing.offset + 8ULL * i));
      if (first + i == 0)
        out->version = word & ~watermark_bit;
      else
        out->of[first + i - 1] = Member::unpack(word, first + i - 1);
    }
  }
  co_return true;
}

// Every node that is up gets the words, and then the version by which its workers notice. A lost node that
// can be told is up: from then on it takes part, and has to be told the end as well, or it would never learn
// where the shares lie. False: a node that is up, or was not lost, could not be told.
coro::Task<bool> Session::tell_members(MemberTable members, std::vector<fabric::NodeId> lost,
                                       std::vector<bool>* is_up) {
  bool are_all = true;
  for (std::uint32_t node = 0; node < settings_.config.nodes; ++node) {
    const auto peer = static_cast<fabric::NodeId>(node);
    bool is_told = false;
    constexpr int most_tries = 8;
    for (int i = 0; i < most_tries && !is_told; ++i) {
      is_told = co_await write_member_words(peer, members);
      if (!is_told) {
        const bool is_back = co_await reconnect(peer);
        if (!is_back) break;
      }
    }
    own_.counters.members_told += is_told ? 1 : 0;
    if (!is_told && ((*is_up)[node] || !is_among(lost, node))) are_all = false;
    if (is_told && !(*is_up)[node]) {
      LOCH_PROBE("nessie.lost-node-came-back");
      (*is_up)[node] = true;
    }
  }
  co_return are_all;
}

coro::Task<bool> Session::write_member_words(fabric::NodeId peer, MemberTable members) {
  const Result<fabric::RemoteRegion> region = store_.fabric().lookup(peer, members_region);
  if (!region.has_value()) co_return false;
  const fabric::RemoteRegion remote = *region;
  const fabric::LocalSlice source{node_.words, word_at(lane_scan)};
  const fabric::LocalSlice scratch{node_.words, word_at(lane_flush)};
  const auto nodes = static_cast<std::uint32_t>(members.of.size());
  for (std::uint32_t first = 0; first < nodes; first += scan_words) {
    const std::uint32_t count = std::min(scan_words, nodes - first);
    for (std::uint32_t i = 0; i < count; ++i)
      fabric::store_word_release(node_.words->at(source.offset + 8ULL * i), members.of[first + i].pack());
    const fabric::Completion done = co_await worker_.write(remote, 8ULL * (1 + first), source, 8 * count);
    if (!done.ok()) co_return false;
  }
  // A WRITE's completion does not say that the remote CPU can see it; a READ behind it does (rule 3).
  const fabric::Completion pushed = co_await worker_.read(remote, 0, scratch, 8);
  if (!pushed.ok()) co_return false;
  fabric::store_word_release(node_.words->at(source.offset), watermark_bit | members.version);
  const fabric::Completion version = co_await worker_.write(remote, 0, source, 8);
  if (!version.ok()) co_return false;
  const fabric::Completion seen = co_await worker_.read(remote, 0, scratch, 8);
  co_return seen.ok();
}

// Finds a place for a share that lies nowhere and fills it with EMPTY words. Nobody uses it meanwhile.
coro::Task<bool> Session::lay_out_share(std::uint32_t share, MemberTable* members, std::vector<bool> is_up,
                                        std::vector<fabric::NodeId> lost) {
  Member& member = members->of[share];
  const Member before = member;
  std::vector<Member> places;
  if (is_up[member.host]) places.push_back({member.host, member.area, member.incarnation, false});
  for (std::uint32_t area = 1; area <= settings_.spare_shares; ++area) {
    for (std::uint32_t step = 1; step < settings_.config.nodes; ++step) {
      const std::uint32_t host = (share + step) % settings_.config.nodes;
      const auto is_taken = [&](const Member& other) { return other.host == host && other.area == area; };
      const bool is_free = std::ranges::none_of(members->of, is_taken);
      if (is_up[host] && !is_among(lost, host) && is_free)
        places.push_back({host, area, member.incarnation, false});
    }
  }
  for (const Member& place : places) {
    const bool is_filled = co_await fill_area(place);
    if (!is_filled) continue;
    if (place.host == before.host) LOCH_PROBE("nessie.share-laid-out-in-place");
    if (place.host != before.host) LOCH_PROBE("nessie.share-adopted");
    members->of[share] = place;
    co_return true;
  }
  LOCH_PROBE("nessie.share-without-a-place");
  co_return false;
}

coro::Task<bool> Session::fill_area(Member place) {
  const fabric::LocalSlice source{node_.words, word_at(lane_scan)};
  const auto host = static_cast<fabric::NodeId>(place.host);
  const Word empty = settings_.format.initial_empty(place.incarnation);
  int tries_left = 8;
  for (std::uint64_t slot = 0; slot < settings_.slots_per_node;) {
    const auto count =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(scan_words, settings_.slots_per_node - slot));
    for (std::uint32_t i = 0; i < count; ++i)
      fabric::store_word_release(node_.words->at(source.offset + 8ULL * i), empty);
    const Result<fabric::RemoteRegion> region = store_.fabric().lookup(host, index_region);
    if (!region.has_value()) co_return false;
    const fabric::RemoteRegion remote = *region;
    const std::uint64_t at = place.area * settings_.share_bytes() + slot * 8;
    const fabric::Completion done = co_await worker_.write(remote, at, source, 8 * count);
    if (done.ok()) {
      slot += count;
      continue;
    }
    const bool is_back = co_await reconnect(host);
    if (!is_back || --tries_left == 0) co_return false;
  }
  const fabric::LocalSlice scratch{node_.words, word_at(lane_flush)};
  const Result<fabric::RemoteRegion> region = store_.fabric().lookup(host, index_region);
  if (!region.has_value()) co_return false;
  const fabric::RemoteRegion remote = *region;
  const fabric::Completion seen =
      co_await worker_.read(remote, place.area * settings_.share_bytes(), scratch, 8);
  co_return seen.ok();
}

// read_index() buries what names lost memory; so all that is to do is to read every slot of it.
coro::Task<bool> Session::bury_all(std::map<std::string, std::uint64_t>* counts) {
  bool is_whole = true;
  const std::uint64_t before = own_.counters.lost_words_buried;
  for (std::uint32_t node = 0; node < settings_.config.nodes; ++node) {
    std::vector<Finding> found;
    const bool is_read = co_await scan_index(node, &found);
    is_whole = is_whole && is_read;
    for (const Finding& each : found) {
      if (!names_lost_memory(each.word)) continue;
      const WordRead read = co_await read_index(each.place);
      is_whole = is_whole && read.ok;
    }
  }
  (*counts)["words_emptied"] += own_.counters.lost_words_buried - before;
  // Entries that only lost words named are their owners' again.
  const LeakScan leaks = co_await stamp_leaks();
  (*counts)["leaks_suspected"] += leaks.found;
  co_return is_whole&& leaks.is_whole;
}

}  // namespace loch::nessie
