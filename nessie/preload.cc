// Each node writes its part of the preloaded table directly to its own memory before any worker runs. The
// result is the same as after n PUTs one after the other.
#include <algorithm>
#include <vector>

#include "common/base/parallel.h"
#include "common/cuckoo/placement.h"
#include "common/fabric/memory.h"
#include "nessie/store.h"

namespace loch::nessie {
namespace {

constexpr std::uint64_t least_records = 20'000;  // of one thread: fewer take less time than a thread's start

// Each thread has a Preloader of its own.
class Preloader {
 public:
  Preloader(const Settings& settings, const kv::Dataset& data)
      : s_(settings),
        data_(data),
        key_(settings.entry.key_size()),
        value_(std::min(settings.config.kept_value_bytes, settings.entry.value_size())) {}

  // Writes slots [from, to) of this node's index: the word of a record, or EMPTY.
  void fill_index(fabric::Region& index, std::uint32_t node, const cuckoo::Placement& placement,
                  std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t slot = from; slot < to; ++slot) {
      const std::uint32_t owner = placement.owner(cuckoo::Place{node, slot});
      const Word word = owner == cuckoo::Placement::free_slot ? s_.format.initial_empty() : word_of(owner);
      fabric::store_word_release(index.at(slot * 8), word);
    }
  }

  // Writes DTEs [from, to) of this node, which hold records node, node + nodes, ….
  void fill_data(fabric::Region& data, std::uint32_t node, std::uint64_t from, std::uint64_t to) {
    const EntryLayout& entry = s_.entry;
    for (std::uint64_t own = from; own < to; ++own) {
      const std::uint64_t record = node + own * s_.config.nodes;
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

Result<> NessieStore::preload(fabric::Fabric& /*fabric*/, const kv::Dataset& data) {
  LOCH_CHECK_EQ(data.count(), settings_->config.keys);
  const auto write_key = [&data](std::uint64_t i, std::byte* out) { data.key(i, out); };
  LOCH_ASSIGN(const cuckoo::Placement placement,
              cuckoo::plan_placement(settings_->family, settings_->config.keys, settings_->entry.key_size(),
                                     write_key));
  const std::uint64_t nodes = settings_->config.nodes;
  for (auto& [number, each] : nodes_) {
    const std::uint32_t node = number;
    auto& state = each;
    in_parallel(settings_->slots_per_node, least_records, [&](std::uint64_t from, std::uint64_t to) {
      Preloader(*settings_, data).fill_index(*state.index, node, placement, from, to);
    });
    const std::uint64_t records = node < data.count() ? (data.count() - node + nodes - 1) / nodes : 0;
    in_parallel(records, least_records, [&](std::uint64_t from, std::uint64_t to) {
      Preloader(*settings_, data).fill_data(*state.data, node, from, to);
    });
  }
  return {};
}

}  // namespace loch::nessie
