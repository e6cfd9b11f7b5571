#include "tests/model/state_store.h"

#include <cstring>
#include <type_traits>

#include "common/base/check.h"
#include "common/base/rng.h"

namespace loch::model {
namespace {

static_assert(std::has_unique_object_representations_v<State>, "states are compared as bytes: no padding");
constexpr std::size_t block_bytes = 1 << 20;
constexpr std::size_t head_bytes = offsetof(State, clients);

}  // namespace

StateStore::StateStore(int clients, int entries)
    : clients_bytes_(sizeof(ClientState) * static_cast<std::size_t>(clients)),
      entries_bytes_(sizeof(Entry) * static_cast<std::size_t>(entries)),
      table_(1024, 0) {}

void StateStore::pack(const World& world) {
  packed_.resize(head_bytes + clients_bytes_ + entries_bytes_);
  char* at = packed_.data();
  std::memcpy(at, &world.state, head_bytes);
  std::memcpy(at + head_bytes, world.state.clients.data(), clients_bytes_);
  std::memcpy(at + head_bytes + clients_bytes_, world.state.entries.data(), entries_bytes_);
  for (const RegisterSet& set : world.registers) {
    const auto& configurations = set.configurations();
    const auto count = static_cast<std::uint16_t>(configurations.size());
    const std::size_t from = packed_.size();
    packed_.resize(from + sizeof count + count * sizeof(std::uint64_t));
    std::memcpy(packed_.data() + from, &count, sizeof count);
    std::memcpy(packed_.data() + from + sizeof count, configurations.data(), count * sizeof(std::uint64_t));
  }
}

std::uint64_t StateStore::hash() const {
  std::uint64_t h = packed_.size();
  std::size_t i = 0;
  for (; i + 8 <= packed_.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, packed_.data() + i, 8);
    h = (h ^ word) * 0x9E3779B97F4A7C15ULL;
    h ^= h >> 29;
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, packed_.data() + i, packed_.size() - i);
  return mix64(h ^ rest);
}

const char* StateStore::keep() {
  if (block_left_ < packed_.size()) {
    LOCH_CHECK_LE(packed_.size(), block_bytes);
    blocks_.push_back(std::make_unique<char[]>(block_bytes));
    block_at_ = blocks_.back().get();
    block_left_ = block_bytes;
  }
  char* const kept = block_at_;
  std::memcpy(kept, packed_.data(), packed_.size());
  block_at_ += packed_.size();
  block_left_ -= packed_.size();
  return kept;
}

void StateStore::grow() {
  std::vector<std::uint32_t> larger(table_.size() * 2, 0);
  for (std::uint32_t number = 0; number < records_.size(); ++number) {
    std::size_t at = records_[number].hash & (larger.size() - 1);
    while (larger[at] != 0) at = (at + 1) & (larger.size() - 1);
    larger[at] = number + 1;
  }
  table_.swap(larger);
}

bool StateStore::insert(const World& world) {
  pack(world);
  const auto h = static_cast<std::uint32_t>(hash());
  std::size_t at = h & (table_.size() - 1);
  for (; table_[at] != 0; at = (at + 1) & (table_.size() - 1)) {
    const Record& other = records_[table_[at] - 1];
    if (other.hash == h && other.size == packed_.size() &&
        std::memcmp(other.bytes, packed_.data(), packed_.size()) == 0) {
      return false;
    }
  }
  records_.push_back({keep(), static_cast<std::uint32_t>(packed_.size()), h});
  table_[at] = static_cast<std::uint32_t>(records_.size());
  if (records_.size() * 2 > table_.size()) grow();
  return true;
}

void StateStore::load(std::uint32_t number, World* world) const {
  const char* at = records_[number].bytes;
  std::memcpy(&world->state, at, head_bytes);
  std::memcpy(world->state.clients.data(), at + head_bytes, clients_bytes_);
  std::memcpy(world->state.entries.data(), at + head_bytes + clients_bytes_, entries_bytes_);
  at += head_bytes + clients_bytes_ + entries_bytes_;
  for (RegisterSet& set : world->registers) {
    std::uint16_t count = 0;
    std::memcpy(&count, at, sizeof count);
    set.assign(at + sizeof count, count);
    at += sizeof count + count * sizeof(std::uint64_t);
  }
}

}  // namespace loch::model
