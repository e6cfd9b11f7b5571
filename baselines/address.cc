// Parses server addresses (host:port, or the path of a Unix socket), connects to them, and finds free ports.
#include "baselines/address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace loch::baselines {
namespace {

constexpr std::size_t longest_path = sizeof(sockaddr_un::sun_path) - 1;

Result<Address> parse_one(std::string_view text, std::string_view what) {
  const auto bad = [&] {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: \"{}\" is not host:port or the /path of a Unix socket", what, text));
  };
  Address address;
  if (text.starts_with('/')) {
    if (text.size() > longest_path) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}: \"{}\" is longer than the {} bytes of a Unix socket's path", what, text,
                              longest_path));
    }
    address.path = text;
    return address;
  }
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad();
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  if (error != std::errc{} || end != digits.data() + digits.size() || address.port == 0) return bad();
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad();
  }
  if (host.find_first_of(" \t\"'/[]") != std::string_view::npos) return bad();
  address.host = host;
  return address;
}

Result<int> finish_connect(int fd, const sockaddr* to, socklen_t size, Nanos within) {
  if (::connect(fd, to, size) == 0) return fd;
  int problem = errno;
  if (problem == EINPROGRESS) {
    pollfd wait{.fd = fd, .events = POLLOUT, .revents = 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(std::max<Nanos>(1, within / 1'000'000)));
    socklen_t length = sizeof problem;
    if (ready == 0) problem = ETIMEDOUT;
    if (ready > 0) ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length);
    if (ready > 0 && problem == 0) return fd;
  }
  ::close(fd);
  return fail(ErrorCode::unavailable, std::strerror(problem));
}

Result<int> connect_unix(const Address& address, Nanos within) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(ErrorCode::unavailable, std::strerror(errno));
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  address.path.copy(to.sun_path, longest_path);
  return finish_connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to, within);
}

}  // namespace

std::string Address::text() const {
  if (is_unix()) return path;
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Result<std::vector<Address>> parse_addresses(std::string_view text, std::string_view what) {
  std::vector<Address> all;
  while (!text.empty()) {
    const auto comma = text.find(',');
    std::string_view one = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    LOCH_ASSIGN(Address address, parse_one(one, what));
    if (std::ranges::find(all, address) != all.end()) {
      return fail(ErrorCode::invalid_argument, fmt::format("{}: {} is there twice", what, address.text()));
    }
    all.push_back(std::move(address));
  }
  return all;
}

Result<int> connect_to(const Address& address, Nanos within) {
  if (address.is_unix()) return connect_unix(address, within);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const std::string port = std::to_string(address.port);
  if (const int error = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found); error != 0)
    return fail(ErrorCode::unavailable, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, ::freeaddrinfo);
  Result<int> last = fail(ErrorCode::unavailable, "no address");
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const int fd = ::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    const int one = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    last = finish_connect(fd, each->ai_addr, each->ai_addrlen, within);
    if (last) break;
  }
  return last;
}

Result<std::uint16_t> free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  const bool is_bound = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&at), size) == 0 &&
                        ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0;
  const int problem = errno;
  if (fd >= 0) ::close(fd);
  if (!is_bound)
    return fail(ErrorCode::unavailable, fmt::format("no free port of 127.0.0.1: {}", std::strerror(problem)));
  return ntohs(at.sin_port);
}

Nanos monotonic_now() {
  timespec at{};
  ::clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1'000'000'000LL + at.tv_nsec;
}

}  // namespace loch::baselines
