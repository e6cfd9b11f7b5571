// Computes the hash that identifies a state of a run. It covers memory, the inputs of each node's steps, the
// operations that had returned before each operation began, messages not yet received, half-executed
// requests, the time, and the failures that Bounds still allows.
#include "app/explore/run.h"
#include "app/explore/words.h"

namespace loch::explore {

// Operations are hashed client by client, because their order in operations_ depends on which client began
// first.
Hash Run::history_id() const {
  Words words;
  for (const auto& client : clients_) {
    words.add(client->number);
    for (const Operation& o : operations_) {
      if (o.client != client->number) continue;
      words.add(static_cast<std::uint64_t>(o.step.verb));
      words.add(o.step.key);
      words.add(by_client(o.predecessors));
      words.add(o.ended ? 1U + static_cast<std::uint64_t>(o.status) : 0U);
      if (!o.ended) continue;
      words.add(static_cast<std::uint64_t>(o.effect));
      words.add(hash_of(o.value.data(), o.value.size()));
    }
  }
  return words.hash();
}

Hash Run::id() {
  refresh();
  Words words;
  for (const Hash& each : memory_hash_) words.add(each);
  for (const Hash& each : chains_) words.add(each);
  for (const auto& client : clients_) {
    words.add(client->next);
    words.add(client->is_dead ? 1 : 0);
    for (const Operation& o : operations_) {
      if (o.client != client->number) continue;
      words.add(by_client(o.predecessors));
      words.add(o.dead);
    }
  }
  for (fabric::Worker* each : workers_) {
    for (const auto transport : {fabric::Transport::rc, fabric::Transport::uc, fabric::Transport::ud}) {
      for (const fabric::Received& message : fabric_->arrived(*each, transport)) {
        words.add(static_cast<std::uint64_t>(transport) << 32U | message.from << 16U | message.from_worker);
        words.add(std::uint64_t{message.length} << 32U | message.immediate);
        words.add(message.buffer.offset);
        words.add(message.user);
      }
    }
  }
  // Half-executed requests are hashed separately, because they are not yet an input of any node's steps.
  for (fabric::Worker* each : workers_) {
    for (std::size_t i = 0; i < fabric_->posted(*each); ++i) {
      const fabric::step::Tear* tear = fabric_->torn(*each, i);
      if (tear == nullptr) continue;
      const std::vector<std::byte>& staged = fabric_->staged(*each, i);
      words.add(std::uint64_t{each->node()} << 48U | std::uint64_t{each->index()} << 32U | i);
      words.add(std::uint64_t{tear->lower_bytes} << 2U | (tear->is_upper_first ? 2U : 0U) |
                (tear->is_at_landing ? 1U : 0U));
      words.add(hash_of(staged.data(), staged.size()));
    }
  }
  words.add(std::uint64_t{left_.torn} << 40U | std::uint64_t{left_.cuts} << 32U |
            std::uint64_t{left_.fails} << 24U | left_.kills << 16U | left_.clocks << 8U | left_.late);
  words.add(static_cast<std::uint64_t>(fabric_->now()));
  words.add(waits_in_vain_);
  if (left_.switches) words.add(std::uint64_t{*left_.switches} << 32U | last_.value_or(UINT8_MAX));
  return words.hash();
}

// Converts a bit mask of operations to the number of operations of each client, one byte per client.
std::uint64_t Run::by_client(std::uint64_t operations) const {
  std::uint64_t counts = 0;
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    if ((operations >> i & 1U) != 0) counts += std::uint64_t{1} << (8 * operations_[i].client);
  }
  return counts;
}

}  // namespace loch::explore
