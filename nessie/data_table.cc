#include "nessie/data_table.h"

#include <algorithm>

#include "common/fabric/memory.h"

namespace loch::nessie {
namespace {

constexpr Nanos never = INT64_MAX;
// Entries that an allocation looks at before it gives up for now.
constexpr std::uint32_t scan_chunk = 256;

}  // namespace

DataTable::DataTable(fabric::Region& region, const EntryLayout& layout, const WordFormat& format,
                     const Share& share, Nanos margin, bool honours_expiry)
    : region_(region),
      layout_(layout),
      format_(format),
      share_(share),
      margin_(margin),
      honours_expiry_(honours_expiry),
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
  return {region_.node(), index, format_.next_generation(old.generation)};
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
  meta.generation = static_cast<std::uint16_t>(id.generation);
  fabric::store_word_release(word_at(id.index, layout_.meta_at()), meta.pack());
  put_back(id.index);
}

std::uint32_t DataTable::scan(Nanos node_now, std::uint32_t most) {
  std::uint32_t freed = 0;
  most = std::min(most, fresh_);
  for (std::uint32_t i = 0; i < most; ++i) {
    if (cursor_ >= fresh_) cursor_ = 0;
    const std::uint32_t index = share_.first + share_.step * cursor_++;
    const auto stamp = static_cast<Nanos>(fabric::load_word(word_at(index, layout_.stamp_at())));
    ++since_found_;
    if (stamp == 0) continue;
    if (!honours_expiry_ || node_now > stamp + margin_) {
      put_back(index);
      ++freed;
      since_found_ = 0;
      earliest_ = never;
    } else {
      earliest_ = std::min(earliest_, stamp + margin_);
    }
  }
  counts_.scanned += most;
  counts_.recycled += freed;
  uncharged_ += most;
  if (since_found_ >= fresh_ && earliest_ != never && honours_expiry_) {
    // A whole turn found nothing: nothing expires before the earliest deadline seen. Stamps that
    // were set meanwhile lie further ahead, up to the clocks' skew, which the margin covers.
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
