// The data table entries (DTEs) of one owner: the free list, the scan for expired entries, and the handling
// of stamps (marks of entries that have left the index) that name another incarnation or are only suspicions.
#include "nessie/data_table.h"

#include <algorithm>

#include "common/base/probe.h"
#include "common/fabric/memory.h"

namespace loch::nessie {
namespace {

constexpr Nanos never = INT64_MAX;
// Largest number of entries that one allocation examines before it reports that none is free.
constexpr std::uint32_t scan_chunk = 256;

}  // namespace

DataTable::DataTable(fabric::Region& region, const EntryLayout& layout, const WordFormat& format,
                     const Share& share, Nanos margin, const Rules& rules, std::uint32_t incarnation)
    : region_(region),
      layout_(layout),
      format_(format),
      share_(share),
      margin_(margin),
      honours_expiry_(rules.honours_expiry),
      names_incarnation_(rules.stamps_name_incarnation && format.has_generation()),
      frees_suspects_(rules.flaw == Flaw::suspicion_frees),
      incarnation_(incarnation),
      earliest_(never) {
  const auto count_below = [&](std::uint32_t end) {
    return end > share.first ? (end - share.first + share.step - 1) / share.step : 0;
  };
  owned_ = count_below(share.entries);
  fresh_ = count_below(share.preloaded);
}

EntryId DataTable::take(std::uint32_t index) {
  const EntryMeta old = EntryMeta::unpack(fabric::load_word(word_at(index, layout_.meta_at())));
  ++counts_.allocated;
  return {region_.node(), index, format_.next_generation(old.generation), incarnation_};
}

EntryId DataTable::current(std::uint32_t index) const {
  const EntryMeta meta = EntryMeta::unpack(fabric::load_word(word_at(index, layout_.meta_at())));
  return {region_.node(), index, meta.generation, incarnation_};
}

std::optional<EntryId> DataTable::take_doubt() {
  if (doubts_.empty()) return std::nullopt;
  const std::uint32_t index = doubts_.back();
  doubts_.pop_back();
  return current(index);
}

std::optional<EntryId> DataTable::allocate(Nanos node_now) {
  if (!honours_expiry_) scan(node_now, scan_chunk);
  if (free_.empty() && fresh_ == owned_ && is_scan_due(node_now)) scan(node_now, scan_chunk);
  if (!free_.empty()) {
    const std::uint32_t index = free_.back();
    free_.pop_back();
    return take(index);
  }
  if (fresh_ < owned_) return take(share_.first + share_.step * fresh_++);
  ++counts_.exhausted;
  return std::nullopt;
}

void DataTable::prefetch_next() const {
  if (free_.empty() && fresh_ == owned_) return;
  const std::uint32_t index = free_.empty() ? share_.first + share_.step * fresh_ : free_.back();
  const std::byte* const entry = word_at(index, 0);
  for (std::uint64_t at = 0; at < layout_.header_bytes(); at += 64) __builtin_prefetch(entry + at, 1);
}

void DataTable::put_back(std::uint32_t index) {
  EntryMeta meta = EntryMeta::unpack(fabric::load_word(word_at(index, layout_.meta_at())));
  meta.kind = EntryKind::free;
  meta.is_valid = false;
  fabric::store_word_release(word_at(index, layout_.meta_at()), meta.pack());
  fabric::store_word_release(word_at(index, layout_.stamp_at()), 0);
  free_.push_back(index);
}

void DataTable::release(const EntryId& id) {
  EntryMeta meta;
  meta.generation = static_cast<std::uint16_t>(format_.generation_before(id.generation));
  meta.incarnation = static_cast<std::uint8_t>(incarnation_);
  fabric::store_word_release(word_at(id.index, layout_.meta_at()), meta.pack());
  put_back(id.index);
}

DataTable::Verdict DataTable::judge(std::uint32_t index, const Stamp& stamp, Nanos node_now) const {
  if (names_incarnation_) {
    const EntryMeta meta = EntryMeta::unpack(fabric::load_word(word_at(index, layout_.meta_at())));
    const bool is_this = stamp.generation == meta.generation && stamp.incarnation == incarnation_;
    if (!is_this || meta.kind == EntryKind::free) return Verdict::dropped;
  }
  if (stamp.is_suspicion && !frees_suspects_) return Verdict::doubted;
  return !honours_expiry_ || node_now > stamp.deadline + margin_ ? Verdict::free_now : Verdict::wait;
}

std::uint32_t DataTable::scan(Nanos node_now, std::uint32_t most) {
  std::uint32_t freed = 0;
  most = std::min(most, fresh_);
  for (std::uint32_t i = 0; i < most; ++i) {
    if (cursor_ >= fresh_) cursor_ = 0;
    const std::uint32_t index = share_.first + share_.step * cursor_++;
    const Word word = fabric::load_word(word_at(index, layout_.stamp_at()));
    ++since_found_;
    if (Stamp::is_live(word)) continue;
    const Stamp stamp = Stamp::unpack(word, node_now);
    switch (judge(index, stamp, node_now)) {
      case Verdict::free_now:
        put_back(index);
        ++freed;
        since_found_ = 0;
        earliest_ = never;
        break;
      case Verdict::wait:
        earliest_ = std::min(earliest_, stamp.deadline + margin_);
        break;
      case Verdict::dropped:
        LOCH_PROBE("nessie.stamp-of-another-incarnation");
        ++counts_.stamps_dropped;
        // this invalid stamp (mark that an entry has left the index) may have overwritten a valid one, so the
        // owner checks later whether an index word names the entry
        [[fallthrough]];
      case Verdict::doubted:
        fabric::store_word_release(word_at(index, layout_.stamp_at()), 0);
        doubts_.push_back(index);
        break;
    }
  }
  counts_.scanned += most;
  counts_.recycled += freed;
  uncharged_ += most;
  if (since_found_ >= fresh_ && earliest_ != never && honours_expiry_) {
    // A whole scan of all entries found none expired, so nothing expires before the earliest deadline seen.
    // Stamps (marks with a deadline for reuse) written meanwhile have later deadlines, except for clock skew,
    // which the margin covers.
    next_scan_ = earliest_ - margin_;
    since_found_ = 0;
    earliest_ = never;
  }
  return freed;
}

std::uint64_t DataTable::take_scanned() {
  const std::uint64_t scanned = uncharged_;
  uncharged_ = 0;
  return scanned;
}

}  // namespace loch::nessie
