// Finds the node and worker that sent a message, in a table that receivers read without a lock.
#include "common/fabric/verbs/sources.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace loch::fabric::verbs {
namespace {

constexpr std::uint64_t used = std::uint64_t{1} << 56;

std::uint64_t word_of(std::uint32_t qpn, Source source) {
  return used | std::uint64_t{qpn} << 32 | std::uint64_t{source.node} << 16 | source.worker;
}

bool is_of(std::uint64_t word, std::uint32_t qpn) { return word >> 32 == (used >> 32 | qpn); }

// Whether `gid` is the sender's address in the 40 bytes that a device leaves before a datagram's payload. On
// RoCE v2 over IPv4 their last 20 bytes are the IPv4 header; otherwise all 40 are the global routing header
// (GRH), whose layout is that of an IPv6 header.
bool sent_from(const std::byte* grh, const Gid& gid) {
  if (is_ipv4(gid)) return std::memcmp(grh + 32, gid.data() + 12, 4) == 0;
  return std::memcmp(grh + 8, gid.data(), gid.size()) == 0;
}

}  // namespace

void Sources::reserve(std::size_t ends) {
  words_ = std::vector<std::atomic<std::uint64_t>>(std::bit_ceil(std::max<std::size_t>(2 * ends, 64)));
}

bool Sources::add(std::uint32_t qpn, Source source) {
  for (std::size_t step = 0; step < words_.size(); ++step) {
    std::atomic<std::uint64_t>& word = words_[(start(qpn) + step) & (words_.size() - 1)];
    const std::uint64_t seen = word.load(std::memory_order_relaxed);
    if (seen != 0 && !is_of(seen, qpn)) continue;
    word.store(word_of(qpn, source), std::memory_order_release);
    return true;
  }
  return false;
}

std::optional<Source> Sources::find(std::uint32_t qpn) const {
  for (std::size_t step = 0; step < words_.size(); ++step) {
    const std::uint64_t word =
        words_[(start(qpn) + step) & (words_.size() - 1)].load(std::memory_order_acquire);
    if (word == 0) break;
    if (is_of(word, qpn)) return Source{static_cast<NodeId>(word >> 16), static_cast<std::uint16_t>(word)};
  }
  return std::nullopt;
}

void DatagramSources::set(std::vector<Sender> senders) {
  std::ranges::sort(senders, {}, &Sender::qpn);
  senders_ = std::move(senders);
}

std::optional<Source> DatagramSources::find(std::uint32_t qpn, std::uint16_t lid,
                                            const std::byte* grh) const {
  const auto [first, last] = std::ranges::equal_range(senders_, qpn, {}, &Sender::qpn);
  if (first == last) return std::nullopt;
  if (last - first == 1) return first->source;
  for (auto at = first; at != last; ++at) {
    if (grh != nullptr ? sent_from(grh, at->gid) : at->lid == lid) return at->source;
  }
  return std::nullopt;
}

}  // namespace loch::fabric::verbs
