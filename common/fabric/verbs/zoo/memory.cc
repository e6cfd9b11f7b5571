// How the emulated NIC accesses the program's memory: checks of access rights, and copies in 8-byte words, in
// address order or with their 64-byte lines in random order.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <utility>

#include "common/fabric/memory.h"
#include "common/fabric/verbs/zoo/hub.h"
#include "common/fabric/verbs/zoo/nic.h"

namespace loch::fabric::verbs::zoo {
namespace {

constexpr std::size_t line = 64;

std::byte* bytes_at(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

// Calls visit(first, bytes) for each 64-byte line of the span, in random order.
template <typename Visit>
void shuffled(std::uint64_t address, std::size_t bytes, Visit visit) {
  thread_local std::vector<std::pair<std::size_t, std::size_t>> pieces;
  pieces.clear();
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t until = std::min(bytes, at + line - (address + at) % line);
    pieces.emplace_back(at, until - at);
    at = until;
  }
  for (std::size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[hub().random() % i]);
  for (const auto& [at, size] : pieces) visit(at, size);
}

// Calls visit(at, size) for each part of the span that lies in one aligned unit of `unit` bytes, with a pause
// between parts, so that other accesses can come between.
template <typename Visit>
void in_units(const DeviceModel& model, std::uint32_t unit, std::uint64_t address, std::size_t bytes,
              Visit visit) {
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t size = std::min<std::size_t>(bytes - at, unit - (address + at) % unit);
    if (at != 0) pause(model);
    visit(at, size);
    at += size;
  }
}

// Copies 4 or 2 bytes (a Word) by one access if they are aligned. Returns false if they are not, or have
// another size.
template <typename Word>
bool copy_small(std::byte* to, const std::byte* from, std::size_t size, bool is_to_shared) {
  const std::byte* shared = is_to_shared ? to : from;
  if (size != sizeof(Word) || reinterpret_cast<std::uintptr_t>(shared) % sizeof(Word) != 0) return false;
  Word word;
  if (is_to_shared) {
    std::memcpy(&word, from, size);
    std::atomic_ref(*reinterpret_cast<Word*>(to)).store(word, std::memory_order_relaxed);
  } else {
    word = std::atomic_ref(*reinterpret_cast<Word*>(const_cast<std::byte*>(from)))
               .load(std::memory_order_relaxed);
    std::memcpy(to, &word, size);
  }
  return true;
}

bool copy_half(std::byte* to, const std::byte* from, std::size_t size, bool is_to_shared) {
  return copy_small<std::uint32_t>(to, from, size, is_to_shared) ||
         copy_small<std::uint16_t>(to, from, size, is_to_shared);
}

// Places bytes in ascending order of addresses, by release stores: a CPU that has loaded a byte sees those
// before it, as on a device that claims to place bytes in order.
void place_ascending(std::byte* to, std::span<const std::byte> data) {
  while (!data.empty()) {
    std::size_t size = 1;
    if (data.size() >= 8 && reinterpret_cast<std::uintptr_t>(to) % 8 == 0) {
      size = 8;
      std::uint64_t word;
      std::memcpy(&word, data.data(), size);
      store_word_release(to, word);
    } else {
      std::atomic_ref(*to).store(data.front(), std::memory_order_release);
    }
    to += size;
    data = data.subspan(size);
  }
}

}  // namespace

void pause(const DeviceModel& model) {
  if (model.pause_ns == 0) return;
  const Nanos until = now() + model.pause_ns;
  do sched_yield();
  while (now() < until);
}

void place_at_target(const DeviceModel& model, std::uint64_t address, std::span<const std::byte> data) {
  if (model.write_unit == 0) return place(model, address, data);
  std::byte* to = bytes_at(address);
  std::atomic_thread_fence(std::memory_order_release);
  in_units(model, model.write_unit, address, data.size(), [&](std::size_t at, std::size_t size) {
    if (!copy_half(to + at, data.data() + at, size, true)) copy_to_shared(to + at, data.data() + at, size);
  });
  std::atomic_thread_fence(std::memory_order_release);
}

void fetch_at_target(const DeviceModel& model, std::uint64_t address, std::span<std::byte> to) {
  if (model.unit == 0) return fetch(model, address, to);
  const std::byte* from = bytes_at(address);
  in_units(model, model.unit, address, to.size(), [&](std::size_t at, std::size_t size) {
    if (!copy_half(to.data() + at, from + at, size, false)) copy_from_shared(to.data() + at, from + at, size);
  });
  std::atomic_thread_fence(std::memory_order_acquire);
}

Slots<Region>::Pin find_region(const Access& access) {
  Slots<Region>::Pin found = hub().regions.find(access.key >> 8);
  if (!found) return found;
  const auto begin = reinterpret_cast<std::uintptr_t>(found->addr);
  const bool is_allowed = found->lkey == access.key && found->domain == access.domain &&
                          (found->access & access.needs) == access.needs && access.address >= begin &&
                          access.length <= found->length &&
                          access.address - begin <= found->length - access.length;
  if (!is_allowed) return {};
  return found;
}

// Writes `data` to memory as DMA does: in order, or, if the device shuffles, its 64-byte lines in random
// order between fences.
void place(const DeviceModel& model, std::uint64_t address, std::span<const std::byte> data) {
  std::byte* to = bytes_at(address);
  const bool is_word = data.size() == 8 && address % 8 == 0;
  if (!model.shuffles || is_word) return place_ascending(to, data);
  std::atomic_thread_fence(std::memory_order_release);
  shuffled(address, data.size(),
           [&](std::size_t at, std::size_t size) { copy_to_shared(to + at, data.data() + at, size); });
  std::atomic_thread_fence(std::memory_order_release);
}

void fetch(const DeviceModel& model, std::uint64_t address, std::span<std::byte> to) {
  const std::byte* from = bytes_at(address);
  if (to.size() == 8 && address % 8 == 0) {
    const std::uint64_t word = load_word(from);
    std::memcpy(to.data(), &word, 8);
    return;
  }
  if (model.shuffles) {
    shuffled(address, to.size(),
             [&](std::size_t at, std::size_t size) { copy_from_shared(to.data() + at, from + at, size); });
  } else {
    copy_from_shared(to.data(), from, to.size());
  }
  std::atomic_thread_fence(std::memory_order_acquire);
}

bool gather(const QueuePair& qp, const SendRequest& request, std::vector<std::byte>& to) {
  to.clear();
  if ((request.flags & IBV_SEND_INLINE) != 0) {
    to = request.inline_data;
    return true;
  }
  for (const ibv_sge& slice : request.slices) {
    if (slice.length == 0) continue;
    const auto region = find_region({slice.lkey, slice.addr, slice.length, 0, qp.domain});
    if (!region) return false;
    const std::size_t at = to.size();
    to.resize(at + slice.length);
    fetch(qp.nic->model(), slice.addr, std::span(to).subspan(at));
  }
  return true;
}

bool scatter(const QueuePair& qp, std::span<const ibv_sge> slices, std::span<const std::byte> data) {
  for (const ibv_sge& slice : slices) {
    const std::size_t size = std::min<std::size_t>(slice.length, data.size());
    if (size == 0) continue;
    const auto region =
        find_region({slice.lkey, slice.addr, slice.length, IBV_ACCESS_LOCAL_WRITE, qp.domain});
    if (!region) return false;
    place(qp.nic->model(), slice.addr, data.first(size));
    data = data.subspan(size);
  }
  return data.empty();
}

}  // namespace loch::fabric::verbs::zoo
