// Access to the tables of NessieSD and NessieHY for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/coupled/tables.h"

namespace loch::support {

// Checks that every key is stored once, in one of its candidate slots; returns the number of keys.
inline std::uint64_t expect_sound(coupled::Tables& tables) {
  const coupled::Settings& s = tables.settings();
  std::set<std::string> keys;
  for (std::uint32_t node = 0; node < s.config.serving_nodes(); ++node) {
    coupled::NodeTables& own = tables.local(static_cast<fabric::NodeId>(node));
    for (std::uint32_t server = 0; server < s.servers(); ++server) {
      const coupled::RowMemory& memory = own.rows[server]->memory;
      for (std::uint64_t slot = 0; slot < s.slots_per_row; ++slot) {
        const std::uint64_t word = memory.word(slot);
        EXPECT_TRUE(cuckoo::IndexWord::is_stored(word));
        if (cuckoo::IndexWord::is_empty(word)) continue;
        std::vector<std::byte> key(s.config.key_size);
        memory.read_key(cuckoo::IndexWord::entry(word), key.data());
        cuckoo::KeyHash hash = s.family.hash(key);
        EXPECT_LT(hash.rank_of({node * s.servers() + server, slot}), s.functions());
        EXPECT_TRUE(
            keys.insert(std::string(reinterpret_cast<const char*>(key.data()), s.config.key_size)).second);
      }
    }
  }
  return keys.size();
}

}  // namespace loch::support
