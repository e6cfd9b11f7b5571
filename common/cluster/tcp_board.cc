// Connects the launcher processes of a launch by TCP, each two by one connection, and passes items over it.
//
// Of two ranks the higher one connects. It may try several addresses, and one again, before it is answered;
// so nobody sends items on a connection before the higher rank has confirmed that it uses this one.
#include "common/cluster/tcp_board.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/cluster/host_addresses.h"
#include "common/cluster/tcp_frames.h"

namespace loch::cluster {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

constexpr auto answered_within = std::chrono::seconds(5);  // of a try to connect to a rank
constexpr auto try_again_after = std::chrono::milliseconds(500);
constexpr auto greeted_within = std::chrono::seconds(20);  // of a connection that somebody has opened to us
constexpr auto delivered_within = std::chrono::seconds(1);
constexpr std::size_t strangers_max = 4096;
constexpr std::size_t read_at_once = 65'536, read_most = std::size_t{4} << 20;
constexpr int backlog = 4096;
constexpr std::uint64_t listener_mark = ~std::uint64_t{0};
constexpr std::uint64_t stranger_mark = std::uint64_t{1} << 32;  // added to the descriptor of a connection

// A descriptor that is closed when its owner ends.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }
  void reset() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }
  [[nodiscard]] int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

std::unexpected<Error> failed(const char* call) {
  return fail(ErrorCode::unavailable, fmt::format("{}: {}", call, std::strerror(errno)));
}

// Listens on a port that the kernel chooses: on the loopback interface alone, or on all of them.
Result<std::pair<Descriptor, std::uint16_t>> listen_somewhere(bool is_local) {
  constexpr int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  Descriptor listener;
  if (!is_local) {
    listener = Descriptor(socket(AF_INET6, type, 0));
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    const int off = 0;
    if (listener && (setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0 ||
                     bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0))
      listener.reset();  // a machine without IPv6
  }
  if (!listener) {
    listener = Descriptor(socket(AF_INET, type, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(is_local ? INADDR_LOOPBACK : INADDR_ANY);
    if (!listener || bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0)
      return failed("bind");
  }
  if (listen(listener.get(), backlog) != 0) return failed("listen");
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0)
    return failed("getsockname");
  const std::uint16_t port = bound.ss_family == AF_INET6
                                 ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                                 : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port;
  return std::pair(std::move(listener), ntohs(port));
}

// Begins to connect; the descriptor becomes writable when that has succeeded or failed.
Descriptor begin_to_connect(const std::string& address, std::uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(address.c_str(), fmt::format("{}", port).c_str(), &hints, &found) != 0) return {};
  Descriptor made(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (made && connect(made.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
    const int reason = errno;
    made.reset();
    errno = reason;
  }
  freeaddrinfo(found);
  return made;
}

void send_at_once(int socket) {
  const int on = 1;
  static_cast<void>(setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

// Writes a few bytes to a connection that was just made, and so has room for them.
bool write_all(int socket, std::string_view bytes) {
  return send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

// Reads until `got` has `whole` bytes. Returns whether the connection is still well.
bool read_up_to(int socket, std::size_t whole, std::string& got) {
  while (got.size() < whole) {
    std::array<char, 64> buffer;
    const ssize_t read = recv(socket, buffer.data(), std::min(buffer.size(), whole - got.size()), 0);
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return read < 0 && errno == EAGAIN;
    got.append(buffer.data(), static_cast<std::size_t>(read));
  }
  return true;
}

class TcpBoard final : public Board {
 public:
  TcpBoard(const TcpBoardConfig& config, std::unique_ptr<Bulletin> bulletin)
      : rank_(config.rank), bulletin_(std::move(bulletin)), own_(host_addresses()), peers_(config.ranks) {}

  Result<> open(std::string_view only) {
    card_.addresses = shown_addresses(own_, only);
    card_.network = network_name();
    const bool is_local = !card_.addresses.empty() && std::ranges::all_of(own_, [&](const HostAddress& each) {
      return each.is_loopback || std::ranges::find(card_.addresses, each.text) == card_.addresses.end();
    });
    if (getrandom(card_.token.data(), card_.token.size(), 0) != static_cast<ssize_t>(card_.token.size()))
      return failed("getrandom");
    LOCH_ASSIGN(auto listening, listen_somewhere(is_local));
    listener_ = std::move(listening.first);
    card_.port = listening.second;
    epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_) return failed("epoll_create1");
    watch(listener_.get(), EPOLLIN, listener_mark);
    // A rank connects to all lower ones. Rank 0, which connects to none, asks for the texts of all.
    for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
      if (rank != rank_ && (rank < rank_ || rank_ == 0)) bulletin_->expect(rank);
    }
    return {};
  }

  void post(const Slot& slot, std::string bytes) override {
    if (slot.lane == 'k' && slot.number == 0) return show(std::move(bytes));
    Peer& peer = peers_[slot.to];
    if (peer.state == State::closed) return;
    peer.out += item_header(slot.lane, bytes.size());
    peer.out += bytes;
    if (peer.state == State::open) write_some(slot.to);
  }

  void expect(const Slot& slot) override {
    const auto here = here_.find(slot);
    if (here == here_.end()) {
      expected_.insert(slot);
      return;
    }
    ready_.emplace_back(slot, std::move(here->second));
    here_.erase(here);
  }

  std::optional<std::pair<Slot, std::string>> take() override {
    if (ready_.empty()) {
      read_bulletin();
      connect_to_lower_ranks();
      serve();
    }
    if (ready_.empty()) return std::nullopt;
    auto first = std::move(ready_.front());
    ready_.pop_front();
    return first;
  }

  bool is_settled(const Slot& slot) override {
    const Peer& peer = peers_[slot.to];
    return peer.state == State::closed || peer.out.empty();
  }

  std::string failure() override { return failure_.empty() ? bulletin_->failure() : failure_; }

  std::string trouble() override {
    std::vector<std::string> all;
    for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
      if (!peers_[rank].trouble.empty())
        all.push_back(fmt::format("rank {} at {}", rank, peers_[rank].trouble));
    }
    if (all.empty()) return "";
    return fmt::format("{}; LOCH_RENDEZVOUS=FOLDER, a folder that all hosts share, does without TCP",
                       fmt::join(all, ", "));
  }

  void forget(std::uint32_t rank) override {
    shut(rank);
    std::erase_if(ready_, [&](const auto& item) { return item.first.from == rank; });
    std::erase_if(here_, [&](const auto& item) { return item.first.from == rank; });
  }

  [[nodiscard]] int descriptor() const override { return epoll_.get(); }

  void close(bool is_whole) override {
    const Time deadline = Clock::now() + delivered_within;
    while (!is_delivered() && Clock::now() < deadline) {
      serve();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) shut(rank);
    strangers_.clear();
    listener_.reset();
    bulletin_->close(is_whole);
  }

 private:
  // Of the connection to a rank. A higher rank is unknown until it has confirmed its connection.
  enum class State : std::uint8_t { unknown, connecting, greeting, open, closed };
  struct Peer {
    State state = State::unknown;
    Descriptor socket;
    std::string out;  // items to be sent; the bytes before out_at are sent already
    std::size_t out_at = 0;
    bool is_watched_for_room = false;
    ItemReader in;
    // number of the next item of each lane
    std::map<char, std::uint64_t> taken{{'k', 1}, {'m', 0}, {'u', 0}};
    // of a lower rank, to which this one connects:
    Card card;
    std::vector<std::string> addresses;
    std::size_t tries = 0;
    Time next_try{}, deadline{};
    std::string answer;
    std::string trouble;  // why the last try failed; empty once connected
  };
  // A connection that somebody has opened to this rank.
  struct Stranger {
    Descriptor socket;
    std::string got;
    std::optional<std::uint32_t> rank;  // who it is, by a valid greeting
    Time deadline{};
  };

  void watch(int descriptor, std::uint32_t events, std::uint64_t mark, int how = EPOLL_CTL_ADD) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = mark;
    if (epoll_ctl(epoll_.get(), how, descriptor, &event) != 0 && failure_.empty())
      failure_ = fmt::format("epoll_ctl: {}", std::strerror(errno));
  }

  void show(std::string text) {
    if (is_shown_) return;
    is_shown_ = true;
    card_.text = std::move(text);
    bulletin_->post(to_text(card_));
  }

  void deliver(const Slot& slot, std::string bytes) {
    const auto expected = expected_.find(slot);
    if (expected == expected_.end()) {
      here_.emplace(slot, std::move(bytes));
      return;
    }
    expected_.erase(expected);
    ready_.emplace_back(slot, std::move(bytes));
  }

  // ---- Connecting to lower ranks ------------------------------------------------------------------

  void read_bulletin() {
    while (auto posted = bulletin_->take()) {
      const std::uint32_t rank = posted->first;
      auto card = parse_card(posted->second);
      if (!card) {
        failure_ = fmt::format("rank {}: {}", rank, card.error().message);
        return;
      }
      deliver({'k', rank, rank_, 0}, card->text);
      if (rank > rank_) continue;
      Peer& peer = peers_[rank];
      peer.addresses = card->network == card_.network ? std::vector<std::string>{"127.0.0.1"}
                                                      : addresses_to_try(own_, card->addresses);
      peer.card = std::move(*card);
      if (peer.addresses.empty()) peer.trouble = "no address";
    }
  }

  void connect_to_lower_ranks() {
    const Time now = Clock::now();
    for (std::uint32_t rank = 0; rank < rank_; ++rank) {
      Peer& peer = peers_[rank];
      if ((peer.state == State::connecting || peer.state == State::greeting) && now > peer.deadline)
        fail_try(rank, "no answer");
      if (peer.state != State::unknown || peer.addresses.empty() || now < peer.next_try) continue;
      peer.socket = begin_to_connect(address_of(peer), peer.card.port);
      peer.deadline = now + answered_within;
      if (!peer.socket) {
        fail_try(rank, std::strerror(errno));
        continue;
      }
      send_at_once(peer.socket.get());
      peer.state = State::connecting;
      watch(peer.socket.get(), EPOLLOUT, rank);
    }
  }

  static const std::string& address_of(const Peer& peer) {
    return peer.addresses[peer.tries % peer.addresses.size()];
  }

  void fail_try(std::uint32_t rank, const std::string& why) {
    Peer& peer = peers_[rank];
    peer.trouble = fmt::format("{} port {}: {}", address_of(peer), peer.card.port, why);
    peer.socket.reset();
    peer.answer.clear();
    peer.state = State::unknown;
    ++peer.tries;
    const bool are_all_tried = peer.tries % peer.addresses.size() == 0;
    peer.next_try = Clock::now() + (are_all_tried ? try_again_after : std::chrono::milliseconds(0));
  }

  void greet(std::uint32_t rank) {
    Peer& peer = peers_[rank];
    int reason = 0;
    socklen_t length = sizeof reason;
    getsockopt(peer.socket.get(), SOL_SOCKET, SO_ERROR, &reason, &length);
    if (reason != 0) return fail_try(rank, std::strerror(reason));
    if (!write_all(peer.socket.get(), greeting(peer.card.token, rank_)))
      return fail_try(rank, std::strerror(errno));
    peer.state = State::greeting;
    watch(peer.socket.get(), EPOLLIN, rank, EPOLL_CTL_MOD);
  }

  void hear_answer(std::uint32_t rank) {
    Peer& peer = peers_[rank];
    const bool is_well = read_up_to(peer.socket.get(), tcp_magic.size(), peer.answer);
    if (!is_well || !tcp_magic.starts_with(std::string_view(peer.answer).substr(0, tcp_magic.size())))
      return fail_try(rank, "another program answers");
    if (peer.answer.size() < tcp_magic.size()) return;
    if (!write_all(peer.socket.get(), tcp_magic)) return fail_try(rank, std::strerror(errno));
    peer.trouble.clear();
    peer.state = State::open;
    write_some(rank);
  }

  // ---- Being connected to by higher ranks ---------------------------------------------------------

  void accept_some() {
    for (;;) {
      Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) return;
      const Time now = Clock::now();
      std::erase_if(strangers_, [&](const auto& each) { return each.second.deadline < now; });
      if (strangers_.size() >= strangers_max) continue;
      send_at_once(socket.get());
      const int number = socket.get();
      watch(number, EPOLLIN, stranger_mark + static_cast<std::uint64_t>(number));
      strangers_[number] = {
          .socket = std::move(socket), .got = {}, .rank = {}, .deadline = now + greeted_within};
    }
  }

  void hear_stranger(int number) {
    const auto found = strangers_.find(number);
    if (found == strangers_.end()) return;
    Stranger& stranger = found->second;
    bool is_welcome = read_up_to(number, stranger.rank ? tcp_magic.size() : greeting_bytes, stranger.got);
    if (is_welcome && !stranger.rank && stranger.got.size() == greeting_bytes) {
      stranger.rank = parse_greeting(stranger.got, card_.token);
      stranger.got.clear();
      is_welcome = stranger.rank && *stranger.rank > rank_ && *stranger.rank < peers_.size() &&
                   write_all(number, tcp_magic);
    } else if (is_welcome && stranger.rank && stranger.got.size() == tcp_magic.size()) {
      Peer& peer = peers_[*stranger.rank];
      is_welcome = stranger.got == tcp_magic && peer.state == State::unknown;
      if (is_welcome) {
        const std::uint32_t rank = *stranger.rank;
        peer.socket = std::move(stranger.socket);
        peer.state = State::open;
        watch(number, EPOLLIN, rank, EPOLL_CTL_MOD);
        write_some(rank);
      }
      strangers_.erase(found);
      return;
    }
    if (!is_welcome) strangers_.erase(found);
  }

  // ---- Passing items ------------------------------------------------------------------------------

  void serve() {
    std::array<epoll_event, 64> events;
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t mark = events[static_cast<std::size_t>(i)].data.u64;
      if (mark == listener_mark) {
        accept_some();
      } else if (mark >= stranger_mark) {
        hear_stranger(static_cast<int>(mark - stranger_mark));
      } else {
        serve_peer(static_cast<std::uint32_t>(mark));
      }
    }
  }

  void serve_peer(std::uint32_t rank) {
    Peer& peer = peers_[rank];
    if (peer.state == State::connecting) return greet(rank);
    if (peer.state == State::greeting) return hear_answer(rank);
    if (peer.state == State::open) write_some(rank);
    if (peer.state == State::open) read_some(rank);
  }

  void read_some(std::uint32_t rank) {
    Peer& peer = peers_[rank];
    std::array<char, read_at_once> buffer;
    bool is_over = false;
    for (std::size_t total = 0; total < read_most;) {
      const ssize_t got = recv(peer.socket.get(), buffer.data(), buffer.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      is_over = got == 0 || (got < 0 && errno != EAGAIN);
      if (got <= 0) break;
      total += static_cast<std::size_t>(got);
      peer.in.feed({buffer.data(), static_cast<std::size_t>(got)});
      if (is_over = !pass_on(rank); is_over) break;
    }
    if (is_over) shut(rank);
  }

  // Delivers the items that have arrived whole. Returns whether more can follow.
  bool pass_on(std::uint32_t rank) {
    Peer& peer = peers_[rank];
    for (;;) {
      auto item = peer.in.next();
      if (!item) return false;
      if (!*item) return true;
      auto& [lane, bytes] = **item;
      deliver({lane, rank, rank_, peer.taken[lane]++}, std::move(bytes));
    }
  }

  void write_some(std::uint32_t rank) {
    Peer& peer = peers_[rank];
    while (peer.out_at < peer.out.size()) {
      const ssize_t sent =
          send(peer.socket.get(), peer.out.data() + peer.out_at, peer.out.size() - peer.out_at, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno != EAGAIN) return shut(rank);
      if (sent < 0) break;
      peer.out_at += static_cast<std::size_t>(sent);
    }
    const bool has_more = peer.out_at < peer.out.size();
    if (!has_more) {
      peer.out.clear();
      peer.out_at = 0;
    }
    if (has_more == peer.is_watched_for_room) return;
    peer.is_watched_for_room = has_more;
    watch(peer.socket.get(), has_more ? EPOLLIN | EPOLLOUT : EPOLLIN, rank, EPOLL_CTL_MOD);
  }

  // Ends the connection to a rank. That the rank is gone is for the switchboard to find: it is silent.
  void shut(std::uint32_t rank) {
    Peer& peer = peers_[rank];
    peer.state = State::closed;
    peer.socket.reset();
    peer.out.clear();
    peer.out_at = 0;
    peer.trouble.clear();
  }

  // Whether the hosts of all ranks have all that this one has sent.
  bool is_delivered() {
    return std::ranges::all_of(peers_, [](const Peer& peer) {
      int unsent = 0;
      return peer.state != State::open ||
             (peer.out.empty() && (ioctl(peer.socket.get(), SIOCOUTQ, &unsent) != 0 || unsent == 0));
    });
  }

  const std::uint32_t rank_;
  std::unique_ptr<Bulletin> bulletin_;
  const std::vector<HostAddress> own_;
  Card card_;
  bool is_shown_ = false;
  Descriptor epoll_, listener_;
  std::vector<Peer> peers_;            // by rank; that of this rank stays unknown
  std::map<int, Stranger> strangers_;  // by descriptor
  std::set<Slot> expected_;
  std::map<Slot, std::string> here_;  // items that arrived before they were expected
  std::deque<std::pair<Slot, std::string>> ready_;
  std::string failure_;
};

}  // namespace

Result<std::unique_ptr<Board>> open_tcp_board(const TcpBoardConfig& config,
                                              std::unique_ptr<Bulletin> bulletin) {
  auto board = std::make_unique<TcpBoard>(config, std::move(bulletin));
  LOCH_TRY(board->open(config.only));
  return board;
}

}  // namespace loch::cluster
