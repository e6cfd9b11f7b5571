// Records for tests of stores, and small deployments that hold them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/kv/protocol.h"

namespace loch::support {

// Records 0 … count-1, whose key and value are written from the record's number.
class PatternData final : public kv::Dataset {
 public:
  PatternData(std::uint64_t count, std::uint32_t key_size) : count_(count), key_size_(key_size) {}
  [[nodiscard]] std::uint64_t count() const override { return count_; }
  void key(std::uint64_t i, std::byte* out) const override { write_key(i, out, key_size_); }
  void value(std::uint64_t i, std::byte* out, std::uint32_t bytes) const override {
    write_value(i, out, bytes);
  }
  static void write_key(std::uint64_t i, std::byte* out, std::uint32_t bytes) {
    std::memset(out, 0, bytes);
    std::memcpy(out, &i, sizeof i);
  }
  static void write_value(std::uint64_t number, std::byte* out, std::uint32_t bytes) {
    for (std::uint32_t at = 0; at < bytes; at += 8)
      std::memcpy(out + at, &number, std::min<std::uint32_t>(8, bytes - at));
  }
  // Reads the number that identifies a value; false if the value's words differ, because it mixes bytes of
  // two values.
  [[nodiscard]] static bool read_value(const kv::ValueView& value, std::uint64_t* number) {
    std::memcpy(number, value.data, 8);
    for (std::uint32_t at = 0; at + 8 <= value.kept; at += 8) {
      if (std::memcmp(value.data + at, number, 8) != 0) return false;
    }
    return true;
  }

 private:
  std::uint64_t count_;
  std::uint32_t key_size_;
};

// A deployment that keeps every byte of every value, with room for 1.5 times the number of keys.
[[nodiscard]] inline kv::DeployConfig small_deploy(std::uint32_t nodes, std::uint32_t clients,
                                                   std::uint32_t servers, std::uint64_t keys,
                                                   std::uint32_t value_size = 600,
                                                   std::uint32_t key_size = 32) {
  kv::DeployConfig config;
  config.nodes = nodes;
  config.client_workers = clients;
  config.server_workers = servers;
  config.key_size = key_size;
  config.value_size = config.kept_value_bytes = value_size;
  config.keys = keys;
  config.max_keys = keys + keys / 2;
  return config;
}

}  // namespace loch::support
