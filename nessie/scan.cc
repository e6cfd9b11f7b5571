// Reads a share of the index (the part of one node), or headers of entries, for repairs: many with each READ,
// or many READs at once.
#include "nessie/scan.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "common/coro/co_try.h"
#include "common/fabric/memory.h"
#include "nessie/reach.h"

namespace loch::nessie {
namespace {

constexpr std::uint32_t header_words = sizeof(HeaderWords) / 8;
// Most READs that are outstanding at once. If each is of one header, their words fit the lane's buffer of
// scan_words.
constexpr std::uint32_t most_outstanding = 16;
static_assert(most_outstanding * header_words <= scan_words);

// How many headers one READ transfers.
std::uint32_t headers_of_a_read(const Settings& settings) {
  if (!settings.reads_ranges()) return 1;
  const std::uint64_t bytes = std::min(settings.scan_bytes(), most_bytes_of_a_scan);
  return static_cast<std::uint32_t>(bytes / settings.entry.stride());
}

// Where the words of headers lie in the buffer that READs transfer them to: the first one's offset, and the
// distance of two headers.
struct Landed {
  fabric::LocalSlice first;
  std::uint64_t apart = 0;
};

Landed landing_of(const Lane& lane) {
  if (lane.settings.reads_ranges()) return {lane.scan_buffer(), lane.settings.entry.stride()};
  return {{lane.node.words, lane.word_at(lane_scan)}, sizeof(HeaderWords)};
}

// READs the headers of `count` entries from `first` on; all READs are outstanding at once.
coro::Task<bool> read_once(Lane* lane, fabric::NodeId node, std::uint32_t first, std::uint32_t count,
                           Landed landed) {
  const EntryLayout& entry = lane->settings.entry;
  const std::uint32_t each = headers_of_a_read(lane->settings);
  std::array<fabric::WorkRequest, most_outstanding> requests;
  std::uint32_t posted = 0;
  for (std::uint32_t done = 0; done < count; done += each) {
    const std::uint64_t at = (first + done) * entry.stride() + entry.prev_at();
    const fabric::LocalSlice landing{landed.first.region, landed.first.offset + done * landed.apart};
    const std::uint64_t bytes = (std::min(each, count - done) - 1) * entry.stride() + sizeof(HeaderWords);
    requests[posted++] = fabric::one_sided(fabric::Verb::read, lane->own.peers[node].data, at, landing,
                                           static_cast<std::uint32_t>(bytes), nullptr);
  }
  const fabric::WcStatus status = co_await lane->worker.post_and_wait({requests.data(), posted});
  co_return status == fabric::WcStatus::success;
}

}  // namespace

coro::Task<bool> scan_index(Lane* lane, std::uint32_t share, std::vector<Finding>* found) {
  const Settings& settings = lane->settings;
  const fabric::LocalSlice landing = lane->scan_buffer();
  const std::uint64_t most = std::min(settings.scan_bytes(), most_bytes_of_a_scan) / 8;
  for (std::uint64_t slot = 0; slot < settings.slots_per_node; slot += most) {
    const auto count = static_cast<std::uint32_t>(std::min(most, settings.slots_per_node - slot));
    bool is_read = false;
    for (int attempt = 0; attempt < 2 && !is_read; ++attempt) {
      const IndexShare from = lane->own.shares[share];
      if (from.is_void) co_return false;
      const fabric::Completion done =
          co_await lane->worker.read(from.index, from.base + slot * 8, landing, count * 8);
      is_read = done.ok();
      if (is_read) break;
      LOCH_CO_TRY(reconnect(lane, from.index.node));
    }
    if (!is_read) co_return false;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Word word = fabric::load_word(landing.region->at(landing.offset + 8ULL * i));
      if (!WordFormat::is_stored(word)) co_return false;  // the index slot was never initialised
      if (settings.format.is_empty(word) && !settings.format.is_tagged(word)) continue;
      found->push_back({{share, slot + i}, word});
    }
  }
  co_return true;
}

std::uint32_t headers_at_once(const Settings& settings) {
  if (!settings.reads_ranges()) return most_outstanding;
  const std::uint32_t each = headers_of_a_read(settings);
  const std::uint64_t reads = settings.scan_bytes() / settings.entry.stride() / each;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(reads, most_outstanding)) * each;
}

coro::Task<bool> read_headers(Lane* lane, fabric::NodeId node, std::uint32_t first, std::uint32_t count,
                              std::vector<HeaderWords>* headers) {
  LOCH_CHECK(count >= 1 && count <= headers_at_once(lane->settings), "{} headers at once", count);
  const Landed landed = landing_of(*lane);
  for (int attempt = 0; attempt < 3; ++attempt) {
    const bool is_read = co_await read_once(lane, node, first, count, landed);
    if (is_read) {
      headers->clear();
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint64_t from = landed.first.offset + i * landed.apart;
        const auto word = [&](std::uint32_t number) {
          return fabric::load_word(landed.first.region->at(from + 8ULL * number));
        };
        headers->push_back({.prev = word(0), .stamp = word(1), .meta = word(2)});
      }
      co_return true;
    }
    LOCH_CO_TRY(reconnect(lane, node));
  }
  co_return false;
}

}  // namespace loch::nessie
