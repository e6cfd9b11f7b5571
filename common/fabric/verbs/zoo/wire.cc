// Byte streams between processes in a shared file, and sleeping until a message arrives.
#include "common/fabric/verbs/zoo/wire.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>

namespace loch::fabric::verbs::zoo {

static_assert(std::is_trivially_copyable_v<Frame>);

// If the program of a process polled within this many ns, the process receives a message without being woken.
constexpr Nanos poll_trust = 20'000;

std::expected<void, std::string> Wire::open(const std::string& path) {
  if (shared_ != nullptr || path.empty()) return {};
  const auto wrong = [&](const char* what) {
    return std::unexpected("LOCH_ZOO: net=" + path + ": " + what + ": " + std::strerror(errno));
  };
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return wrong("cannot be opened");
  const bool is_long = ftruncate(file, sizeof(Shared)) == 0;
  void* mapped =
      is_long ? mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0)
              : MAP_FAILED;
  const int reason = errno;
  ::close(file);
  errno = reason;
  if (mapped == MAP_FAILED) return wrong("cannot be mapped");
  auto* shared = static_cast<Shared*>(mapped);
  const std::uint32_t place = shared->joined.fetch_add(1);
  if (place >= processes_most) {
    munmap(mapped, sizeof(Shared));
    return std::unexpected("LOCH_ZOO: net=" + path + ": " + std::to_string(processes_most) +
                           " processes have joined, and a file serves no more");
  }
  self_ = static_cast<std::uint16_t>(place);
  shared_ = shared;
  return {};
}

void Wire::close() {
  if (shared_ == nullptr) return;
  munmap(shared_, sizeof(Shared));
  shared_ = nullptr;
}

void Wire::send(std::uint16_t to, const Request& request, std::span<const std::byte> data) {
  send(to, {static_cast<std::uint32_t>(data.size()), self_, false, request, {}}, data);
}

void Wire::send(std::uint16_t to, const Reply& reply, std::span<const std::byte> data) {
  send(to, {static_cast<std::uint32_t>(data.size()), self_, true, {}, reply}, data);
}

void Wire::send(std::uint16_t to, Frame frame, std::span<const std::byte> data) {
  if (shared_ == nullptr || to >= processes_most) return;
  Outbox& outbox = outboxes_[to];
  {
    const std::scoped_lock lock(outbox.mutex);
    const auto* head = reinterpret_cast<const std::byte*>(&frame);
    outbox.waiting.insert(outbox.waiting.end(), head, head + sizeof frame);
    outbox.waiting.insert(outbox.waiting.end(), data.begin(), data.end());
    pump(to, outbox);
  }
  ring(to);
}

// Moves as many bytes from the outbox to the stream as fit now.
void Wire::pump(std::uint16_t to, Outbox& outbox) {
  Stream& stream = shared_->streams[self_][to];
  const std::uint64_t tail = stream.tail.load(std::memory_order_relaxed);
  const std::uint64_t room = Stream::size - (tail - stream.head.load(std::memory_order_acquire));
  const std::size_t moved = std::min<std::uint64_t>(room, outbox.waiting.size());
  const std::size_t first = std::min<std::size_t>(moved, Stream::size - tail % Stream::size);
  std::memcpy(stream.data + tail % Stream::size, outbox.waiting.data(), first);
  std::memcpy(stream.data, outbox.waiting.data() + first, moved - first);
  stream.tail.store(tail + moved, std::memory_order_release);
  outbox.waiting.erase(outbox.waiting.begin(), outbox.waiting.begin() + static_cast<std::ptrdiff_t>(moved));
}

bool Wire::flush() {
  if (shared_ == nullptr) return true;
  bool is_empty = true;
  for (std::uint16_t to = 0; to < processes_most; ++to) {
    Outbox& outbox = outboxes_[to];
    const std::scoped_lock lock(outbox.mutex);
    if (outbox.waiting.empty()) continue;
    pump(to, outbox);
    ring(to);
    is_empty &= outbox.waiting.empty();
  }
  return is_empty;
}

bool Wire::receive(Message& to) {
  if (shared_ == nullptr) return false;
  const std::uint32_t joined = std::min<std::uint32_t>(shared_->joined.load(), processes_most);
  for (std::uint32_t from = 0; from < joined; ++from) {
    Stream& stream = shared_->streams[from][self_];
    std::vector<std::byte>& inbox = inboxes_[from];
    const std::uint64_t head = stream.head.load(std::memory_order_relaxed);
    const std::uint64_t count = stream.tail.load(std::memory_order_acquire) - head;
    for (std::uint64_t i = 0; i < count;) {
      const std::byte* piece = stream.data + (head + i) % Stream::size;
      const std::uint64_t size = std::min(count - i, Stream::size - (head + i) % Stream::size);
      inbox.insert(inbox.end(), piece, piece + size);
      i += size;
    }
    stream.head.store(head + count, std::memory_order_release);
    if (inbox.size() < sizeof(Frame)) continue;
    std::memcpy(&to.frame, inbox.data(), sizeof(Frame));
    const std::size_t whole = sizeof(Frame) + to.frame.bytes;
    if (inbox.size() < whole) continue;
    to.data.assign(inbox.begin() + sizeof(Frame), inbox.begin() + static_cast<std::ptrdiff_t>(whole));
    inbox.erase(inbox.begin(), inbox.begin() + static_cast<std::ptrdiff_t>(whole));
    return true;
  }
  return false;
}

std::uint32_t Wire::bell() { return bell_of(self_).rung.load(std::memory_order_acquire); }

void Wire::ring(std::uint16_t process) {
  Bell& bell = bell_of(process);
  bell.rung.fetch_add(1, std::memory_order_seq_cst);
  const bool is_polled = process != self_ && now() - bell.polled.load(std::memory_order_relaxed) < poll_trust;
  if (!is_polled && bell.is_asleep.load(std::memory_order_seq_cst) != 0)
    syscall(SYS_futex, &bell.rung, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void Wire::sleep(std::uint32_t seen, Nanos most) {
  Bell& bell = bell_of(self_);
  bell.is_asleep.store(1, std::memory_order_seq_cst);
  if (bell.rung.load(std::memory_order_seq_cst) == seen) {
    const timespec limit{most / 1'000'000'000, most % 1'000'000'000};
    syscall(SYS_futex, &bell.rung, FUTEX_WAIT, seen, &limit, nullptr, 0);
  }
  bell.is_asleep.store(0, std::memory_order_seq_cst);
}

}  // namespace loch::fabric::verbs::zoo
