// Reads a share of the index (the part of one node) for repairs, many words with each READ.
#include "nessie/scan.h"

#include <algorithm>

#include "common/coro/co_try.h"
#include "common/fabric/memory.h"
#include "nessie/reach.h"

namespace loch::nessie {

coro::Task<bool> scan_index(Lane* lane, std::uint32_t share, std::vector<Finding>* found) {
  const Settings& settings = lane->settings;
  const fabric::LocalSlice landing{lane->node.words, lane->word_at(lane_scan)};
  for (std::uint64_t slot = 0; slot < settings.slots_per_node; slot += scan_words) {
    const auto count =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(scan_words, settings.slots_per_node - slot));
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
      const Word word = fabric::load_word(lane->node.words->at(landing.offset + 8ULL * i));
      if (!WordFormat::is_stored(word)) co_return false;  // the index slot was never initialised
      if (settings.format.is_empty(word) && !settings.format.is_tagged(word)) continue;
      found->push_back({{share, slot + i}, word});
    }
  }
  co_return true;
}

}  // namespace loch::nessie
