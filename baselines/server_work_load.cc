// The echo server with which server_work.py compares memcached and Redis, and the client that loads these
// servers over TCP on 127.0.0.1. Client and echo server have one thread each, except the echo server
// `threads`.
//
//   server_work_load echo PORT [at-once|second-pass|threads]
//     answers the bytes of each receive with 10 bytes. at-once: one epoll, level-triggered; a readable
//     connection is received from and answered. second-pass: after receiving, registers for EPOLLOUT
//     (epoll_ctl), and answers when epoll_wait reports it (epoll_ctl again), as Redis did before its
//     version 3.0. threads: a blocking thread for each connection.
//   server_work_load load PORT CONNECTIONS REQUESTS REQUEST_BYTES REPLY_BYTES FILE
//     sends the requests of FILE, all of one length, in turn, with one outstanding request on each
//     connection; prints the number of replies, the seconds that they took, and the last reply.
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr std::string_view answer = "0123456789";

[[noreturn]] void give_up(std::string_view what) {
  fmt::print(stderr, "server_work_load: {}: {}\n", what, std::strerror(errno));
  std::exit(1);
}

sockaddr_in address_of(std::uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

int make_socket() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) give_up("socket");
  return fd;
}

void answer_soon(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void answer_now(int fd) {
  if (::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) < 0 && errno != EPIPE) give_up("send");
}

class Echo {
 public:
  explicit Echo(std::uint16_t port) {
    const int on = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in at = address_of(port);
    if (::bind(listener_, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) give_up("bind");
    if (::listen(listener_, 512) != 0) give_up("listen");
  }

  [[noreturn]] void serve_by_threads() {
    while (true) {
      const int fd = accept_one();
      std::thread([fd] {
        std::array<char, 16384> buffer;
        while (::recv(fd, buffer.data(), buffer.size(), 0) > 0) answer_now(fd);
        ::close(fd);
      }).detach();
    }
  }

  [[noreturn]] void serve(bool by_second_pass) {
    watch(EPOLL_CTL_ADD, listener_, EPOLLIN);
    std::array<epoll_event, 1024> ready;
    while (true) {
      const int n = ::epoll_wait(epoll_, ready.data(), static_cast<int>(ready.size()), -1);
      if (n < 0 && errno != EINTR) give_up("epoll_wait");
      for (int i = 0; i < n; ++i) {
        const epoll_event& event = ready[static_cast<std::size_t>(i)];
        if (event.data.fd == listener_) {
          const int fd = accept_one();
          ::fcntl(fd, F_SETFL, O_NONBLOCK);
          watch(EPOLL_CTL_ADD, fd, EPOLLIN);
        } else if ((event.events & EPOLLOUT) != 0) {
          answer_now(event.data.fd);
          watch(EPOLL_CTL_MOD, event.data.fd, EPOLLIN);
        } else {
          take(event.data.fd, by_second_pass);
        }
      }
    }
  }

 private:
  int accept_one() {
    const int fd = ::accept(listener_, nullptr, nullptr);
    if (fd < 0) give_up("accept");
    answer_soon(fd);
    return fd;
  }

  void watch(int what, int fd, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    if (::epoll_ctl(epoll_, what, fd, &event) != 0) give_up("epoll_ctl");
  }

  void take(int fd, bool by_second_pass) {
    const ssize_t got = ::recv(fd, buffer_.data(), buffer_.size(), 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      ::close(fd);
    } else if (by_second_pass) {
      watch(EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT);
    } else {
      answer_now(fd);
    }
  }

  int listener_ = make_socket();
  int epoll_ = ::epoll_create1(0);
  std::array<char, 16384> buffer_;
};

struct Load {
  std::uint16_t port = 0;
  std::uint32_t connections = 0;
  std::uint64_t requests = 0;
  std::uint32_t request_bytes = 0, reply_bytes = 0;
  std::string texts;
};

// The load's client. It never sleeps: it polls one connection after another, which keeps the server busy at
// the least cost for the client's core.
class Client {
 public:
  explicit Client(Load load) : load_(std::move(load)), texts_(load_.texts.size() / load_.request_bytes) {
    const sockaddr_in at = address_of(load_.port);
    for (std::uint32_t i = 0; i < load_.connections; ++i) {
      const int fd = make_socket();
      if (::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) give_up("connect");
      answer_soon(fd);
      connections_.push_back({fd, 0});
    }
  }

  void run() {
    const auto start = std::chrono::steady_clock::now();
    for (Connection& each : connections_) send_next(each);
    while (answered_ < load_.requests) {
      bool found_none = true;
      for (Connection& each : connections_) {
        if (!is_answered(each)) continue;
        found_none = false;
        if (sent_ < load_.requests) send_next(each);
      }
      if (found_none) ::sched_yield();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const auto line = std::string_view(reply_.data(), load_.reply_bytes);
    fmt::print("{} {:.6f} {}\n", answered_, took.count(), line.substr(0, line.find('\r')));
  }

 private:
  struct Connection {
    int fd;
    std::uint32_t got;
  };

  void send_next(Connection& to) {
    const char* text = load_.texts.data() + sent_ % texts_ * load_.request_bytes;
    if (::send(to.fd, text, load_.request_bytes, 0) != static_cast<ssize_t>(load_.request_bytes))
      give_up("send");
    to.got = 0;
    ++sent_;
  }

  bool is_answered(Connection& from) {
    if (from.got == load_.reply_bytes) return false;  // no request is outstanding
    const ssize_t got = ::recv(from.fd, reply_.data() + from.got, reply_.size() - from.got, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return false;
    if (got <= 0) give_up("recv");
    from.got += static_cast<std::uint32_t>(got);
    if (from.got > load_.reply_bytes || reply_[0] != (first_ == 0 ? first_ = reply_[0] : first_)) {
      errno = EPROTO;
      give_up(std::string_view(reply_.data(), from.got));
    }
    if (from.got < load_.reply_bytes) return false;
    ++answered_;
    return true;
  }

  Load load_;
  std::uint64_t texts_, sent_ = 0, answered_ = 0;
  char first_ = 0;  // first byte of every reply
  std::vector<Connection> connections_;
  std::array<char, 4096> reply_{};
};

template <typename Number>
Number number(const char* text) {
  Number value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stop != end || value == 0) {
    errno = EINVAL;
    give_up(text);
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "echo" && (argc == 3 || argc == 4)) {
    const std::string_view how = argc == 4 ? argv[3] : "at-once";
    Echo echo(number<std::uint16_t>(argv[2]));
    if (how == "threads") echo.serve_by_threads();
    if (how == "at-once" || how == "second-pass") echo.serve(how == "second-pass");
  } else if (what == "load" && argc == 8) {
    std::ifstream in(argv[7], std::ios::binary);
    Load load{.port = number<std::uint16_t>(argv[2]),
              .connections = number<std::uint32_t>(argv[3]),
              .requests = number<std::uint64_t>(argv[4]),
              .request_bytes = number<std::uint32_t>(argv[5]),
              .reply_bytes = number<std::uint32_t>(argv[6]),
              .texts = {std::istreambuf_iterator<char>(in), {}}};
    if (load.reply_bytes <= 2048 && load.texts.size() >= load.request_bytes &&
        load.requests >= load.connections) {
      Client(std::move(load)).run();
      return 0;
    }
  }
  fmt::print(stderr, "server_work_load: it is for server_work.py; its source says what it takes\n");
  return 2;
}
