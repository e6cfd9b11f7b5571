// Implements both ends of the socket pair between a rank's launcher process and its working process.
#include "common/cluster/socket_channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "common/base/check.h"

namespace loch::cluster {
namespace {

constexpr std::size_t unsent_bytes_max = std::size_t{512} << 20;

int to_milliseconds(std::chrono::nanoseconds span) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(span).count();
  return static_cast<int>(std::clamp<std::int64_t>(ms, 0, 1'000'000));
}

}  // namespace

// ---- The child's end of the socket pair -------------------------------------------------------

SocketChannel::~SocketChannel() {
  stop();
  close(socket_);
}

Result<std::vector<std::string>> SocketChannel::await_welcome(Nanos within) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(within);
  std::array<char, 65'536> buffer;
  for (;;) {
    LOCH_ASSIGN(std::optional<Frame> frame, frames_.next());
    if (frame) {
      if (frame->kind != FrameKind::welcome)
        return fail(ErrorCode::corrupt, "the launcher process spoke before its welcome");
      return parse_hosts(frame->payload);
    }
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0)
      return fail(ErrorCode::timed_out,
                  fmt::format("the ranks did not meet within {}", format_duration(within)));
    pollfd waited = {.fd = socket_, .events = POLLIN, .revents = 0};
    if (poll(&waited, 1, to_milliseconds(left)) <= 0) continue;
    const ssize_t got = read(socket_, buffer.data(), buffer.size());
    if (got == 0) return fail(ErrorCode::unavailable, "the launcher process has gone");
    if (got > 0) frames_.feed({buffer.data(), static_cast<std::size_t>(got)});
  }
}

void SocketChannel::start(ChannelListener& listener) {
  LOCH_CHECK(!reader_.joinable(), "a channel is started once");
  reader_ = std::thread([this, &listener] {
    std::array<char, 65'536> buffer;
    while (pass_on(listener)) {
      const ssize_t got = read(socket_, buffer.data(), buffer.size());
      if (got == 0 || (got < 0 && errno != EINTR)) return;
      if (got > 0) frames_.feed({buffer.data(), static_cast<std::size_t>(got)});
    }
  });
}

bool SocketChannel::pass_on(ChannelListener& listener) {
  for (;;) {
    auto frame = frames_.next();
    if (!frame) return false;
    if (!*frame) return true;
    if ((*frame)->kind == FrameKind::part || (*frame)->kind == FrameKind::text) {
      const Kind kind = (*frame)->kind == FrameKind::part ? Kind::part : Kind::text;
      listener.on_arrival(kind, (*frame)->rank, std::move((*frame)->payload));
    } else if (const auto notice = parse_notice((*frame)->payload, ranks_max)) {
      // Acknowledge a restart in the stream, so that the launcher knows that all earlier frames were
      // meant for the former incarnation.
      if ((*frame)->kind == FrameKind::back) write_whole(**frame);
      listener.on_fate(*notice);
    }
  }
}

void SocketChannel::stop() {
  if (!reader_.joinable()) return;
  shutdown(socket_, SHUT_RD);  // unblocks the reader thread's read()
  reader_.join();
}

void SocketChannel::send(Kind kind, std::uint32_t to, const std::string& payload) {
  LOCH_CHECK(kind == Kind::part || kind == Kind::text, "a channel carries parts and texts");
  write_whole({kind == Kind::part ? FrameKind::part : FrameKind::text, to, payload});
}

void SocketChannel::write_whole(const Frame& frame) {
  const std::string bytes = to_bytes(frame);
  const std::lock_guard lock(sending_);
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(socket_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent > 0) at += static_cast<std::size_t>(sent);
    // the launcher process has died, and the kernel kills this process too
    if (sent < 0 && errno != EINTR) return;
  }
}

// ---- The launcher's end of the socket pair ----------------------------------------------------

SocketChild::SocketChild(int socket) { renew(socket); }

SocketChild::~SocketChild() { close(socket_); }

void SocketChild::renew(int socket) {
  if (socket_ >= 0) close(socket_);
  socket_ = socket;
  LOCH_CHECK(fcntl(socket_, F_SETFL, O_NONBLOCK) == 0, "fcntl: {}", std::strerror(errno));
  frames_ = {};
  unsent_.clear();
  sent_ = 0;
  is_open_ = true;
}

void SocketChild::tell(const Frame& frame) {
  if (!is_open_ || unsent_.size() - sent_ + frame.payload.size() > unsent_bytes_max) return;
  unsent_ += to_bytes(frame);
  write_some();
}

std::optional<Frame> SocketChild::hear() {
  write_some();
  for (;;) {
    auto frame = frames_.next();
    if (!frame) {
      is_open_ = false;  // a malformed frame: the peer does not speak this protocol
      return std::nullopt;
    }
    if (*frame) return std::move(*frame);
    if (!is_open_) return std::nullopt;
    std::array<char, 65'536> buffer;
    const ssize_t got = read(socket_, buffer.data(), buffer.size());
    if (got < 0) return std::nullopt;
    if (got == 0) is_open_ = false;
    frames_.feed({buffer.data(), static_cast<std::size_t>(got)});
  }
}

void SocketChild::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

void SocketChild::wait(Nanos span, int other) {
  std::array<pollfd, 2> waited{};
  waited[0] = {.fd = is_open_ ? socket_ : -1, .events = POLLIN, .revents = 0};
  if (!unsent_.empty()) waited[0].events |= POLLOUT;
  waited[1] = {.fd = other, .events = POLLIN, .revents = 0};
  poll(waited.data(), waited.size(), to_milliseconds(std::chrono::nanoseconds(span)));
}

void SocketChild::write_some() {
  while (is_open_ && sent_ < unsent_.size()) {
    const ssize_t sent = send(socket_, unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0) return;
    sent_ += static_cast<std::size_t>(sent);
  }
  unsent_.clear();
  sent_ = 0;
}

}  // namespace loch::cluster
