// Sends PUTs of records to a server without waiting for each reply, and checks the replies as they arrive.
#include "baselines/loader.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "baselines/text.h"

namespace loch::baselines {
namespace {

// If this many bytes or more are unsent, put() sends until at most half as many are unsent.
constexpr std::size_t batch_bytes = 256 * 1024;

}  // namespace

Result<std::unique_ptr<Loader>> Loader::connect(System system, const Address& address, Nanos patience) {
  auto fd = connect_to(address, patience);
  if (!fd) {
    return fail(ErrorCode::unavailable, fmt::format("{} at {}: nothing answers there ({})", name(system),
                                                    address.text(), fd.error().message));
  }
  return std::unique_ptr<Loader>(new Loader(system, address, patience, *fd));
}

Loader::~Loader() { ::close(fd_); }

std::unexpected<Error> Loader::sorry(std::string_view why) const {
  return fail(ErrorCode::unavailable,
              fmt::format("{} at {}: the preload failed: {}", name(system_), address_.text(), why));
}

Result<> Loader::put(std::string_view key_text, std::span<const std::byte> value) {
  append_head(system_, OpKind::put, key_text, static_cast<std::uint32_t>(value.size()), out_);
  out_.append(reinterpret_cast<const char*>(value.data()), value.size());
  out_ += value_end;
  ++unacknowledged_;
  if (out_.size() - sent_ < batch_bytes) return {};
  return move(batch_bytes / 2, false);
}

Result<> Loader::finish() { return move(0, true); }

// Sends until at most `leave` bytes are unsent, and reads replies meanwhile; with `to_the_end`, until all
// replies have arrived.
Result<> Loader::move(std::size_t leave, bool to_the_end) {
  Nanos last = monotonic_now();
  while (out_.size() - sent_ > leave || (to_the_end && unacknowledged_ > 0)) {
    const bool has_more = out_.size() > sent_;
    pollfd wait{.fd = fd_, .events = static_cast<short>(POLLIN | (has_more ? POLLOUT : 0)), .revents = 0};
    const int ready = ::poll(&wait, 1, 100);
    if (ready < 0 && errno != EINTR) return sorry(std::strerror(errno));
    moved_ = false;
    if ((wait.revents & POLLOUT) != 0) LOCH_TRY(send_some());
    if ((wait.revents & (POLLIN | POLLHUP | POLLERR)) != 0) LOCH_TRY(receive_some());
    const Nanos now = monotonic_now();
    if (moved_) last = now;
    if (now - last > patience_)
      return sorry(fmt::format("no progress for {}; {} records are not acknowledged",
                               format_duration(patience_), unacknowledged_));
  }
  out_.erase(0, sent_);
  sent_ = 0;
  return {};
}

Result<> Loader::send_some() {
  const ssize_t sent = ::send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    if (errno == EAGAIN || errno == EINTR) return {};
    return sorry(std::strerror(errno));
  }
  sent_ += static_cast<std::size_t>(sent);
  moved_ = moved_ || sent > 0;
  return {};
}

Result<> Loader::receive_some() {
  char buffer[16 * 1024];
  const ssize_t got = ::recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (got < 0) return sorry(std::strerror(errno));
  if (got == 0) return sorry("it closed the connection");
  moved_ = true;
  in_.append(buffer, static_cast<std::size_t>(got));
  return judge_replies();
}

Result<> Loader::judge_replies() {
  std::size_t at = 0;
  for (std::size_t end = in_.find("\r\n"); end != std::string::npos; end = in_.find("\r\n", at)) {
    const std::string_view line(in_.data() + at, end + 2 - at);
    ParsedReply reply;
    const bool is_known = parse_reply(system_, OpKind::put, line, reply);
    if (is_known && reply.status == kv::OpStatus::table_full) {
      return fail(ErrorCode::exhausted,
                  fmt::format("{} at {}: its memory is full; give it more with --{}.memory", name(system_),
                              address_.text(), name(system_)));
    }
    if (!is_known || unacknowledged_ == 0)
      return sorry(fmt::format("it said \"{}\"", line.substr(0, std::min<std::size_t>(line.size() - 2, 80))));
    --unacknowledged_;
    at = end + 2;
  }
  in_.erase(0, at);
  if (in_.size() > 4096) return sorry("it said something that does not end");
  return {};
}

}  // namespace loch::baselines
