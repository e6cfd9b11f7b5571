// READs and CASes a server worker's own index words through its node's NIC, and finds out what became of a
// CAS that ended in an error.
#include "common/coupled/nic_index.h"

#include "common/base/probe.h"
#include "common/cuckoo/index_word.h"
#include "common/fabric/memory.h"
#include "common/onesided/transfer.h"

namespace loch::coupled {

NicIndex::NicIndex(Tables& tables, fabric::Worker& worker, std::uint32_t server)
    : settings_(tables.settings()),
      worker_(worker),
      server_(server),
      index_(tables.own_index(worker.node())),
      landing_{tables.local(worker.node()).nic_words, std::uint64_t{server} * nic_word_bytes},
      flushed_at_(landing_.offset + 8),
      counts_(tables.local(worker.node()).rows[server]->counts) {}

fabric::WorkRequest NicIndex::request(fabric::Verb verb, std::uint64_t slot) const {
  return fabric::one_sided(verb, index_, settings_.word_at(server_, slot), landing_, 8, nullptr);
}

coro::Task<fabric::WcStatus> NicIndex::execute(fabric::WorkRequest request) {
  const auto landing = [this]() -> std::optional<onesided::Landing> {
    if (!settings_.polls_nic_words) return std::nullopt;
    return onesided::Landing{.region = landing_.region,
                             .word_at = landing_.offset,
                             .mark = cuckoo::IndexWord::mark,
                             .until = worker_.now() + settings_.rules.expiry};
  };
  const onesided::Ended ended = co_await onesided::Transfer(worker_, request, landing);
  if (ended.is_settled()) co_return ended.status;
  LOCH_PROBE("coupled.nic.word-late");
  const fabric::LocalSlice to{landing_.region, flushed_at_};
  const fabric::WcStatus settled = co_await onesided::settle(
      &worker_, ended.outcome, fabric::one_sided(fabric::Verb::read, index_, 0, to, 8, nullptr));
  co_return settled;
}

// Waits until the worker is connected with its own node. Returns false if the worker has to stop before that.
coro::Task<bool> NicIndex::connect() {
  const fabric::NodeId own = worker_.node();
  while (!worker_.connected(own)) {
    if (worker_.stopping()) co_return false;
    LOCH_PROBE("coupled.nic.reconnect");
    ++counts_.nic_reconnects;
    const Nanos deadline = worker_.now() + settings_.channel.reconnect_timeout;
    const bool is_back = co_await worker_.reconnect(own, deadline);
    static_cast<void>(is_back);  // not used: the loop asks whether the worker is connected
  }
  co_return true;
}

coro::Task<std::optional<std::uint64_t>> NicIndex::read(std::uint64_t slot) {
  for (;;) {
    const bool is_connected = co_await connect();
    if (!is_connected) co_return std::nullopt;
    const fabric::WcStatus status = co_await execute(request(fabric::Verb::read, slot));
    if (status != fabric::WcStatus::success) continue;
    ++counts_.nic_reads;
    const std::uint64_t word = fabric::load_word(landing_.data());
    if (!cuckoo::IndexWord::is_stored(word)) co_return std::nullopt;
    co_return word;
  }
}

coro::Task<bool> NicIndex::swap(std::uint64_t slot, std::uint64_t expected, std::uint64_t desired) {
  for (;;) {
    const bool is_connected = co_await connect();
    if (!is_connected) co_return false;
    fabric::WorkRequest cas = request(fabric::Verb::cas, slot);
    cas.compare = expected;
    cas.operand = desired;
    const fabric::WcStatus status = co_await execute(cas);
    if (status == fabric::WcStatus::success) {
      ++counts_.nic_swaps;
      co_return fabric::load_word(landing_.data()) == expected;
    }
    if (settings_.rules.trusts_failed_swap) co_return true;
    // Whether the CAS took place is unknown. The READ uses a new connection, over which the failed CAS can no
    // longer arrive, and no other worker changes this slot. So the word that is READ now tells whether the
    // CAS took place.
    const std::optional<std::uint64_t> now = co_await read(slot);
    if (!now) co_return false;
    if (*now == desired) {
      LOCH_PROBE("coupled.nic.cas-had-happened");
      co_return true;
    }
    if (*now != expected) co_return false;
    LOCH_PROBE("coupled.nic.cas-did-not-happen");
  }
}

}  // namespace loch::coupled
