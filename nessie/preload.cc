// Writes each node's part of the preloaded table directly to that node's own memory before any worker runs.
// The result is the same as after one PUT for each key.
#include <algorithm>
#include <vector>

#include "common/cuckoo/placement.h"
#include "common/fabric/memory.h"
#include "common/kv/preloading.h"
#include "nessie/store.h"

namespace loch::nessie {
namespace {

class Preloader {
 public:
  Preloader(const Settings& settings, const kv::Dataset& data)
      : s_(settings),
        data_(data),
        key_(settings.entry.key_size()),
        value_(std::min(settings.config.kept_value_bytes, settings.entry.value_size())) {}

  // Writes these slots of this node's index: the word of a record, or EMPTY.
  void fill_index(fabric::Region& index, std::uint32_t node, kv::Span slots,
                  const cuckoo::Placement& placement) {
    for (std::uint64_t slot = slots.first; slot < slots.end; ++slot) {
      const std::uint32_t owner = placement.owner(cuckoo::Place{node, slot});
      const Word word = owner == cuckoo::Placement::free_slot ? s_.format.initial_empty() : word_of(owner);
      fabric::store_word_release(index.at(slot * 8), word);
    }
  }

  // Writes some data table entries of this node, which hold the records whose number modulo the number of
  // nodes is the node's id.
  void fill_data(fabric::Region& data, std::uint32_t node, kv::Span entries) {
    const EntryLayout& entry = s_.entry;
    for (std::uint64_t i = entries.first; i < entries.end; ++i) {
      const std::uint64_t record = node + i * s_.config.serving_nodes();
      const EntryId id = s_.preloaded_entry(record);
      const std::uint64_t at = id.index * entry.stride();
      data_.key(record, key_.data());
      data_.value(record, value_.data(), static_cast<std::uint32_t>(value_.size()));
      fabric::copy_to_shared(data.at(at), key_.data(), key_.size());
      fabric::store_word_release(data.at(at + entry.prev_at()), 0);
      fabric::store_word_release(data.at(at + entry.stamp_at()), 0);
      if (!value_.empty())
        fabric::copy_to_shared(data.at(at + entry.value_at()), value_.data(), value_.size());
      fabric::store_word_release(data.at(at + entry.tail_at()), watermark_bit);
      const EntryMeta meta{
          .is_valid = true, .kind = EntryKind::put, .generation = static_cast<std::uint16_t>(id.generation)};
      fabric::store_word_release(data.at(at + entry.meta_at()), meta.pack());
    }
  }

 private:
  [[nodiscard]] Word word_of(std::uint64_t record) {
    data_.key(record, key_.data());
    cuckoo::KeyHash hash = s_.family.hash(key_);
    return s_.format.occupied(s_.preloaded_entry(record), hash.filter(s_.filter_bits), false,
                              s_.format.initial_empty());
  }

  const Settings& s_;
  const kv::Dataset& data_;
  std::vector<std::byte> key_;
  std::vector<std::byte> value_;
};

}  // namespace

Result<> NessieStore::preload(fabric::Fabric& fabric, const kv::Dataset& data) {
  LOCH_CHECK_EQ(data.count(), settings_->config.keys);
  const auto write_key = [&data](std::uint64_t i, std::byte* out) { data.key(i, out); };
  LOCH_ASSIGN(const cuckoo::Placement placement,
              cuckoo::plan_placement(settings_->family, settings_->config.keys, settings_->entry.key_size(),
                                     write_key));
  const std::size_t threads = kv::preload_threads(fabric);
  // Parts are many, so that threads end together, and each is of memory that lies together.
  const std::size_t parts = threads == 1 ? 1 : 16 * threads;
  for (auto& [node, state] : nodes_) {
    if (state.index == nullptr) continue;
    LOCH_TRY(in_parallel(parts, threads, [&, this](std::size_t part) -> Result<> {
      Preloader preloader(*settings_, data);
      preloader.fill_index(*state.index, node, kv::part_of(settings_->slots_per_node, part, parts),
                           placement);
      preloader.fill_data(*state.data, node, kv::part_of(settings_->preloaded_on(node), part, parts));
      return {};
    }));
  }
  return {};
}

}  // namespace loch::nessie
