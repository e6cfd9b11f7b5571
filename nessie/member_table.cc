// READs and WRITEs the member table (incarnation of each node, and place of its share of the index) of every
// node.
#include "nessie/member_table.h"

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "nessie/reach.h"

namespace loch::nessie {
namespace {

coro::Task<bool> read_member_words(Lane* lane, fabric::NodeId peer, MemberTable* out) {
  const fabric::LocalSlice landing{lane->node.words, lane->word_at(lane_scan)};
  const auto words = static_cast<std::uint32_t>(out->of.size() + 1);
  for (std::uint32_t first = 0; first < words; first += scan_words) {
    const std::uint32_t count = std::min(scan_words, words - first);
    const Result<fabric::RemoteRegion> region = lane->store.fabric().lookup(peer, members_region);
    if (!region.has_value()) co_return false;
    const fabric::RemoteRegion remote = *region;
    const fabric::Completion read = co_await lane->worker.read(remote, 8ULL * first, landing, 8 * count);
    if (!read.ok()) co_return false;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Word word = fabric::load_word(lane->node.words->at(landing.offset + 8ULL * i));
      if (first + i == 0)
        out->version = word & ~watermark_bit;
      else
        out->of[first + i - 1] = Member::unpack(word, first + i - 1);
    }
  }
  co_return true;
}

coro::Task<bool> write_member_words(Lane* lane, fabric::NodeId peer, const MemberTable* members) {
  const Result<fabric::RemoteRegion> region = lane->store.fabric().lookup(peer, members_region);
  if (!region.has_value()) co_return false;
  const fabric::RemoteRegion remote = *region;
  const fabric::LocalSlice source{lane->node.words, lane->word_at(lane_scan)};
  const fabric::LocalSlice scratch{lane->node.words, lane->word_at(lane_flush)};
  const auto nodes = static_cast<std::uint32_t>(members->of.size());
  for (std::uint32_t first = 0; first < nodes; first += scan_words) {
    const std::uint32_t count = std::min(scan_words, nodes - first);
    for (std::uint32_t i = 0; i < count; ++i)
      fabric::store_word_release(lane->node.words->at(source.offset + 8ULL * i),
                                 members->of[first + i].pack());
    const fabric::Completion done =
        co_await lane->worker.write(remote, 8ULL * (1 + first), source, 8 * count);
    if (!done.ok()) co_return false;
  }
  // A WRITE's completion does not prove that the remote CPU can see the data; a READ after the WRITE does
  // (rule 3 of common/fabric/fabric.h).
  const fabric::Completion pushed = co_await lane->worker.read(remote, 0, scratch, 8);
  if (!pushed.ok()) co_return false;
  fabric::store_word_release(lane->node.words->at(source.offset), watermark_bit | members->version);
  const fabric::Completion version = co_await lane->worker.write(remote, 0, source, 8);
  if (!version.ok()) co_return false;
  const fabric::Completion seen = co_await lane->worker.read(remote, 0, scratch, 8);
  co_return seen.ok();
}

}  // namespace

coro::Task<Survey> survey_members(Lane* lane) {
  const std::uint32_t nodes = lane->settings.config.nodes;
  Survey survey{.members = {}, .is_up = std::vector<bool>(nodes), .is_new = std::vector<bool>(nodes)};
  survey.members.of.resize(nodes);
  for (std::uint32_t i = 0; i < nodes; ++i) survey.members.of[i] = Member::initial(i);
  for (std::uint32_t node = 0; node < nodes; ++node) {
    const auto peer = static_cast<fabric::NodeId>(node);
    MemberTable theirs;
    theirs.of.resize(nodes);
    bool is_read = co_await read_member_words(lane, peer, &theirs);
    if (!is_read) {
      const bool is_back = co_await reconnect(lane, peer);
      if (is_back) {
        const bool is_read_now = co_await read_member_words(lane, peer, &theirs);
        is_read = is_read_now;
      }
    }
    survey.is_up[node] = is_read;
    survey.is_new[node] = is_read && theirs.version == 0;
    if (is_read && theirs.version > survey.members.version) survey.members = theirs;
  }
  co_return survey;
}

coro::Task<bool> tell_members(Lane* lane, std::vector<fabric::NodeId> lost, Survey* survey) {
  constexpr int most_tries = 8;
  bool are_all = true;
  for (std::uint32_t node = 0; node < lane->settings.config.nodes; ++node) {
    const auto peer = static_cast<fabric::NodeId>(node);
    bool is_told = false;
    for (int i = 0; i < most_tries && !is_told; ++i) {
      const bool is_written = co_await write_member_words(lane, peer, &survey->members);
      is_told = is_written;
      if (is_told) break;
      const bool is_back = co_await reconnect(lane, peer);
      if (!is_back) break;
    }
    lane->own.counters.members_told += is_told ? 1 : 0;
    if (!is_told && (survey->is_up[node] || !is_among(lost, node))) are_all = false;
    if (is_told && !survey->is_up[node]) {
      LOCH_PROBE("nessie.lost-node-came-back");
      survey->is_up[node] = true;
    }
  }
  co_return are_all;
}

}  // namespace loch::nessie
