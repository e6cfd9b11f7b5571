// Computes the keys and digests of a run's first records.
#include "workloads/key_table.h"

#include "common/kv/value.h"

namespace loch::workloads {

KeyTable::KeyTable(const Records& records) {
  constexpr std::uint64_t word = sizeof(std::uint64_t);
  const std::uint64_t words = 1 + (records.shape().key_size + word - 1) / word;
  if (records.count() > bytes_max / (words * word)) return;
  stride_ = words * word;
  const auto table = std::make_shared<std::uint64_t[]>(records.count() * words);
  words_ = table;
  for (; count_ < records.count(); ++count_) {
    std::uint64_t* const digest = &table[count_ * words];
    auto* const key = reinterpret_cast<std::byte*>(digest + 1);
    records.key(count_, key);
    *digest = kv::key_digest({key, records.key_size(count_)});
  }
}

}  // namespace loch::workloads
