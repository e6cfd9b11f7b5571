#include "baselines/memcached_client.h"

#include <libmemcached/memcached.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "common/base/check.h"

namespace loch::baselines {
namespace {

// The server says that it did nothing; else it may have done it.
bool is_refusal(memcached_return_t code) {
  return code == MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE || code == MEMCACHED_E2BIG ||
         code == MEMCACHED_KEY_TOO_BIG || code == MEMCACHED_BAD_KEY_PROVIDED ||
         code == MEMCACHED_HOST_LOOKUP_FAILURE;
}

kv::OpStatus status_of(memcached_return_t code) {
  switch (code) {
    case MEMCACHED_SUCCESS:
    case MEMCACHED_STORED:
    case MEMCACHED_DELETED:
    case MEMCACHED_END:
      return kv::OpStatus::ok;
    case MEMCACHED_NOTFOUND:
      return kv::OpStatus::not_found;
    case MEMCACHED_TIMEOUT:
      return kv::OpStatus::timeout;
    case MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE:
      return kv::OpStatus::table_full;
    default:
      return kv::OpStatus::error;
  }
}

}  // namespace

MemcachedSession::MemcachedSession(const std::vector<Address>& servers, Nanos timeout,
                                   ConnectionCounts& counts)
    : servers_(servers), timeout_(timeout), counts_(counts), handles_(servers.size(), nullptr) {}

MemcachedSession::~MemcachedSession() {
  std::free(found_);
  for (std::uint32_t i = 0; i < handles_.size(); ++i) close(i);
}

void MemcachedSession::close(std::uint32_t server) {
  if (handles_[server] != nullptr) memcached_free(handles_[server]);
  handles_[server] = nullptr;
}

memcached_st* MemcachedSession::handle(std::uint32_t server) {
  if (handles_[server] != nullptr) return handles_[server];
  memcached_st* made = memcached_create(nullptr);
  LOCH_CHECK(made != nullptr, "libmemcached has no memory for a handle");
  const auto milliseconds = static_cast<std::uint64_t>(std::max<Nanos>(1, timeout_ / 1'000'000));
  const auto microseconds = static_cast<std::uint64_t>(timeout_ / 1'000);
  memcached_behavior_set(made, MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
  memcached_behavior_set(made, MEMCACHED_BEHAVIOR_POLL_TIMEOUT, milliseconds);
  memcached_behavior_set(made, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, milliseconds);
  memcached_behavior_set(made, MEMCACHED_BEHAVIOR_SND_TIMEOUT, microseconds);
  memcached_behavior_set(made, MEMCACHED_BEHAVIOR_RCV_TIMEOUT, microseconds);
  const Address& at = servers_[server];
  const memcached_return_t added = at.is_unix() ? memcached_server_add_unix_socket(made, at.path.c_str())
                                                : memcached_server_add(made, at.host.c_str(), at.port);
  LOCH_CHECK(added == MEMCACHED_SUCCESS, "libmemcached takes no server {}", at.text());
  ++counts_.opened;
  handles_[server] = made;
  return made;
}

void MemcachedSession::execute(MemcachedCall& call) {
  std::free(std::exchange(found_, nullptr));
  memcached_st* to = handle(call.server);
  const char* key = call.key.data();
  const std::size_t key_size = call.key.size();
  memcached_return_t code = MEMCACHED_ERROR;
  switch (call.op) {
    case Op::get: {
      std::size_t size = 0;
      std::uint32_t flags = 0;
      found_ = memcached_get(to, key, key_size, &size, &flags, &code);
      if (found_ == nullptr && code == MEMCACHED_SUCCESS) size = 0;  // an empty value
      const auto kept = static_cast<std::uint32_t>(size);
      call.value = {reinterpret_cast<const std::byte*>(found_), kept, kept};
      break;
    }
    case Op::put:
      code = memcached_set(to, key, key_size, reinterpret_cast<const char*>(call.value.data), call.value.size,
                           0, 0);
      break;
    case Op::remove:
      code = memcached_delete(to, key, key_size, 0);
      break;
  }
  call.status = status_of(code);
  const bool is_answer = call.status == kv::OpStatus::ok || call.status == kv::OpStatus::not_found;
  if (is_answer) return;
  if (call.op != Op::get && !is_refusal(code)) call.effect = kv::Effect::unknown;
  if (call.status == kv::OpStatus::timeout)
    ++counts_.timed_out;
  else if (call.status == kv::OpStatus::error)
    ++counts_.failed;
  // A late reply would be taken for the next one's.
  close(call.server);
}

LaneBoard::LaneBoard(Reactor& reactor) : reactor_(reactor) {
  bell_.board = this;
  bell_.fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  bell_.events = POLLIN;
  bell_.ready = on_ready;
  LOCH_CHECK(bell_.fd >= 0, "no eventfd for the threads of a worker");
  reactor_.add(&bell_);
}

LaneBoard::~LaneBoard() {
  reactor_.remove(&bell_);
  ::close(bell_.fd);
}

void LaneBoard::post(Reactor::Wait* ended) {
  {
    const std::lock_guard lock(mutex_);
    ended_.push_back(ended);
    if (ended_.size() > 1) return;  // it rings already
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto rung = ::write(bell_.fd, &one, sizeof one);
}

void LaneBoard::on_ready(Reactor::Source* source, short /*events*/) {
  LaneBoard* self = static_cast<Bell*>(source)->board;
  std::uint64_t rings = 0;
  [[maybe_unused]] const auto got = ::read(self->bell_.fd, &rings, sizeof rings);
  std::vector<Reactor::Wait*> ended;
  {
    const std::lock_guard lock(self->mutex_);
    ended.swap(self->ended_);
  }
  for (Reactor::Wait* wait : ended) self->reactor_.finish(wait);
}

Lane::Lane(MemcachedSession& session, LaneBoard& board)
    : session_(session), board_(board), thread_([this] { work(); }) {}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wakes_.notify_one();
  thread_.join();
}

void Lane::submit(MemcachedCall* call, Reactor::Wait* wait) {
  {
    const std::lock_guard lock(mutex_);
    LOCH_CHECK(call_ == nullptr, "a slot has one call at a time");
    call_ = call;
    wait_ = wait;
  }
  wakes_.notify_one();
}

void Lane::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wakes_.wait(lock, [this] { return call_ != nullptr || is_ending_; });
    if (call_ == nullptr) return;
    MemcachedCall* call = call_;
    lock.unlock();
    session_.execute(*call);
    lock.lock();
    call_ = nullptr;
    board_.post(wait_);
  }
}

namespace {

class MemcachedClient final : public kv::Client {
 public:
  MemcachedClient(MemcachedWorker* shared, const std::vector<Address>& servers, ConnectionCounts& counts,
                  const Settings& settings)
      : shared_(shared), settings_(settings), session_(servers, settings.timeout, counts) {
    if (shared_ == nullptr) return;
    lane_ = std::make_unique<Lane>(session_, shared_->board);
    shared_->reactor.add_client();
  }
  ~MemcachedClient() override {
    if (shared_ != nullptr) shared_->reactor.remove_client();
  }

  coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override {
    co_return co_await execute(Op::get, key, {}, stats);
  }
  coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value, fabric::OpStats* stats) override {
    co_return co_await execute(Op::put, key, value, stats);
  }
  coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override {
    co_return co_await execute(Op::remove, key, {}, stats);
  }

 private:
  coro::Task<kv::OpResult> execute(Op op, kv::Key key, kv::ValueView value, fabric::OpStats* stats) {
    call_.op = op;
    call_.server = settings_.server_of(key);
    call_.value = value;
    call_.status = kv::OpStatus::error;
    call_.effect = kv::Effect::none;
    write_key_text(System::memcached, key, call_.key);
    if (lane_ == nullptr) {
      session_.execute(call_);
    } else {
      Reactor::Wait wait;  // has no deadline: the library's own time-outs end it
      shared_->reactor.begin(&wait);
      lane_->submit(&call_, &wait);
      co_await shared_->reactor.finished(&wait);
    }
    kv::OpResult result;
    result.status = call_.status;
    result.effect = call_.effect;
    const bool is_value = op == Op::get && call_.status == kv::OpStatus::ok;
    if (is_value) result.value = call_.value;
    const auto key_bytes = static_cast<std::uint32_t>(call_.key.size());
    stats->payload_bytes += request_bytes(System::memcached, op, key_bytes, value.size) +
                            reply_bytes(System::memcached, op, call_.status, key_bytes, result.value.size);
    co_return result;
  }

  MemcachedWorker* shared_;
  const Settings& settings_;
  MemcachedSession session_;
  MemcachedCall call_;
  std::unique_ptr<Lane> lane_;  // last: its thread uses the others
};

}  // namespace

std::unique_ptr<kv::Client> make_memcached_client(MemcachedWorker* shared,
                                                  const std::vector<Address>& servers,
                                                  ConnectionCounts& counts, const Settings& settings) {
  return std::make_unique<MemcachedClient>(shared, servers, counts, settings);
}

}  // namespace loch::baselines
