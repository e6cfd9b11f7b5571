// Executes blocking libmemcached calls: directly if a worker has one outstanding operation at a time,
// otherwise on one courier thread for each server.
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

// Whether the server says that it did not execute the request; after other errors it may have.
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
    case MEMCACHED_NOTSTORED:  // the server sends this in reply to `add` only
      return kv::OpStatus::exists;
    case MEMCACHED_TIMEOUT:
      return kv::OpStatus::timeout;
    case MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE:
      return kv::OpStatus::table_full;
    default:
      return kv::OpStatus::error;
  }
}

}  // namespace

MemcachedConnection::MemcachedConnection(const Address& server, Nanos timeout, ConnectionCounts& counts)
    : server_(server), timeout_(timeout), counts_(counts) {}

MemcachedConnection::~MemcachedConnection() { close(); }

void MemcachedConnection::close() {
  if (handle_ != nullptr) memcached_free(handle_);
  handle_ = nullptr;
}

memcached_st* MemcachedConnection::handle() {
  if (handle_ != nullptr) return handle_;
  handle_ = memcached_create(nullptr);
  LOCH_CHECK(handle_ != nullptr, "libmemcached has no memory for a handle");
  const auto milliseconds = static_cast<std::uint64_t>(std::max<Nanos>(1, timeout_ / 1'000'000));
  const auto microseconds = static_cast<std::uint64_t>(timeout_ / 1'000);
  memcached_behavior_set(handle_, MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
  memcached_behavior_set(handle_, MEMCACHED_BEHAVIOR_POLL_TIMEOUT, milliseconds);
  memcached_behavior_set(handle_, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, milliseconds);
  memcached_behavior_set(handle_, MEMCACHED_BEHAVIOR_SND_TIMEOUT, microseconds);
  memcached_behavior_set(handle_, MEMCACHED_BEHAVIOR_RCV_TIMEOUT, microseconds);
  const memcached_return_t added = server_.is_unix()
                                       ? memcached_server_add_unix_socket(handle_, server_.path.c_str())
                                       : memcached_server_add(handle_, server_.host.c_str(), server_.port);
  LOCH_CHECK(added == MEMCACHED_SUCCESS, "libmemcached takes no server {}", server_.text());
  ++counts_.opened;
  return handle_;
}

void MemcachedConnection::fetch_one(MemcachedCall& call) {
  std::size_t size = 0;
  std::uint32_t flags = 0;
  memcached_return_t code = MEMCACHED_ERROR;
  char* found = memcached_get(handle(), call.key.data(), call.key.size(), &size, &flags, &code);
  if (code == MEMCACHED_SUCCESS) {
    const auto* bytes = reinterpret_cast<const std::byte*>(found);
    call.landing.assign(bytes, bytes + (found != nullptr ? size : 0));
  }
  std::free(found);
  MemcachedCall* const one = &call;
  end({&one, 1}, code);
}

void MemcachedConnection::execute(MemcachedCall& call) {
  const char* key = call.key.data();
  const std::size_t key_size = call.key.size();
  memcached_return_t code = MEMCACHED_ERROR;
  if (call.op == OpKind::get) {
    fetch_one(call);
    return;
  }
  if (call.op == OpKind::put) {
    code = memcached_set(handle(), key, key_size, reinterpret_cast<const char*>(call.value.data),
                         call.value.size, 0, 0);
  } else if (call.op == OpKind::insert_if_absent) {
    code = memcached_add(handle(), key, key_size, reinterpret_cast<const char*>(call.value.data),
                         call.value.size, 0, 0);
  } else {
    code = memcached_delete(handle(), key, key_size, 0);
  }
  MemcachedCall* const one = &call;
  end({&one, 1}, code);
}

void MemcachedConnection::end(std::span<MemcachedCall* const> calls, int code) {
  if (calls.empty()) return;
  const auto reason = static_cast<memcached_return_t>(code);
  for (MemcachedCall* call : calls) {
    call->status = status_of(reason);
    if (!is_completed(call->status) && call->op != OpKind::get && !is_refusal(reason))
      call->effect = kv::Effect::unknown;
  }
  const kv::OpStatus status = calls.front()->status;
  if (is_completed(status)) return;
  if (status == kv::OpStatus::timeout)
    ++counts_.timed_out;
  else if (status == kv::OpStatus::error)
    ++counts_.failed;
  // Closes the connection after a time-out or an error, because a late reply would be taken for the reply to
  // the next request.
  close();
}

// GETs several keys by one request (mget). Replies come in the order of the keys; the server sends none for a
// key that it does not have.
void MemcachedConnection::get(std::span<MemcachedCall* const> calls) {
  if (calls.size() == 1) {
    fetch_one(*calls.front());
    return;
  }
  keys_.clear();
  key_sizes_.clear();
  for (const MemcachedCall* call : calls) {
    keys_.push_back(call->key.data());
    key_sizes_.push_back(call->key.size());
  }
  memcached_return_t code = memcached_mget(handle(), keys_.data(), key_sizes_.data(), keys_.size());
  if (code != MEMCACHED_SUCCESS) {
    end(calls, code);
    return;
  }
  memcached_result_st result;
  memcached_result_create(handle_, &result);
  std::size_t at = 0;
  while (memcached_fetch_result(handle_, &result, &code) != nullptr) {
    const std::string_view key(memcached_result_key_value(&result), memcached_result_key_length(&result));
    std::size_t found = at;
    while (found < calls.size() && calls[found]->key != key) ++found;
    if (found == calls.size()) {
      code = MEMCACHED_PROTOCOL_ERROR;  // the server sent a reply that matches no request
      break;
    }
    for (; at < found; ++at) calls[at]->status = kv::OpStatus::not_found;
    const auto* bytes = reinterpret_cast<const std::byte*>(memcached_result_value(&result));
    calls[at]->landing.assign(bytes, bytes + memcached_result_length(&result));
    calls[at++]->status = kv::OpStatus::ok;
  }
  memcached_result_free(&result);
  const bool is_whole = code == MEMCACHED_END || code == MEMCACHED_NOTFOUND || code == MEMCACHED_SUCCESS;
  end(calls.subspan(at), is_whole ? MEMCACHED_NOTFOUND : code);
}

CourierBoard::CourierBoard(Reactor& reactor) : reactor_(reactor) {
  bell_.board = this;
  bell_.fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  bell_.events = POLLIN;
  bell_.ready = on_ready;
  LOCH_CHECK(bell_.fd >= 0, "no eventfd for the couriers of a worker");
  reactor_.add(&bell_);
}

CourierBoard::~CourierBoard() {
  reactor_.remove(&bell_);
  ::close(bell_.fd);
}

void CourierBoard::post(std::span<MemcachedCall* const> ended) {
  {
    const std::lock_guard lock(mutex_);
    const bool rings_already = !ended_.empty();
    ended_.insert(ended_.end(), ended.begin(), ended.end());
    if (rings_already || ended.empty()) return;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto rung = ::write(bell_.fd, &one, sizeof one);
}

void CourierBoard::on_ready(Reactor::Source* source, short /*events*/) {
  CourierBoard* self = static_cast<Bell*>(source)->board;
  std::uint64_t rings = 0;
  [[maybe_unused]] const auto got = ::read(self->bell_.fd, &rings, sizeof rings);
  std::vector<MemcachedCall*> ended;
  {
    const std::lock_guard lock(self->mutex_);
    ended.swap(self->ended_);
  }
  for (MemcachedCall* call : ended) self->reactor_.finish(call);
}

Courier::Courier(const Address& server, Nanos timeout, ConnectionCounts& counts, CourierBoard& board)
    : connection_(server, timeout, counts), board_(board), thread_([this] { work(); }) {}

Courier::~Courier() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wakes_.notify_one();
  thread_.join();
}

void Courier::submit(MemcachedCall* call) {
  {
    const std::lock_guard lock(mutex_);
    (call->op == OpKind::get ? gets_ : others_).push_back(call);
  }
  wakes_.notify_one();
}

// The courier thread's loop: sends all waiting GETs as one mget, then one waiting PUT, INSERT or DELETE, so
// that neither GETs nor other operations wait long.
void Courier::work() {
  std::vector<MemcachedCall*> gets;
  std::unique_lock lock(mutex_);
  while (true) {
    wakes_.wait(lock, [this] { return !gets_.empty() || !others_.empty() || is_ending_; });
    if (gets_.empty() && others_.empty()) return;
    gets.swap(gets_);
    MemcachedCall* const other = others_.empty() ? nullptr : others_.front();
    if (other != nullptr) others_.erase(others_.begin());
    lock.unlock();
    if (!gets.empty()) {
      connection_.get(gets);
      board_.post(gets);
      gets.clear();
    }
    if (other != nullptr) {
      connection_.execute(*other);
      board_.post({&other, 1});
    }
    lock.lock();
  }
}

MemcachedWorker::MemcachedWorker(fabric::Worker& worker, const std::vector<Address>& servers,
                                 ConnectionCounts& counts, const Settings& settings)
    : reactor(worker), board(reactor) {
  for (const Address& server : servers) {
    if (settings.config.window == 1)
      connections.push_back(std::make_unique<MemcachedConnection>(server, settings.timeout, counts));
    else
      couriers.push_back(std::make_unique<Courier>(server, settings.timeout, counts, board));
  }
}

namespace {

class MemcachedClient final : public kv::Client {
 public:
  MemcachedClient(MemcachedWorker& shared, const Settings& settings) : shared_(shared), settings_(settings) {
    shared_.reactor.add_client();
  }
  ~MemcachedClient() override { shared_.reactor.remove_client(); }

  coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override {
    co_return co_await execute(OpKind::get, key, {}, stats);
  }
  coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value, fabric::OpStats* stats) override {
    co_return co_await execute(OpKind::put, key, value, stats);
  }
  coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override {
    co_return co_await execute(OpKind::remove, key, {}, stats);
  }
  coro::Task<kv::OpResult> insert_if_absent(kv::Key key, kv::ValueView value,
                                            fabric::OpStats* stats) override {
    co_return co_await execute(OpKind::insert_if_absent, key, value, stats);
  }

 private:
  coro::Task<kv::OpResult> execute(OpKind op, kv::Key key, kv::ValueView value, fabric::OpStats* stats) {
    call_.op = op;
    call_.value = value;
    call_.status = kv::OpStatus::error;
    call_.effect = kv::Effect::none;
    write_key_text(System::memcached, key, call_.key);
    const std::uint32_t server = settings_.server_of(key);
    if (!shared_.connections.empty()) {
      shared_.connections[server]->execute(call_);
    } else {
      // This wait for a courier thread has no deadline, because libmemcached's time-outs end the thread's
      // call.
      shared_.reactor.begin(&call_);
      shared_.couriers[server]->submit(&call_);
      co_await shared_.reactor.finished(&call_);
    }
    kv::OpResult result;
    result.status = call_.status;
    result.effect = call_.effect;
    const auto size = static_cast<std::uint32_t>(call_.landing.size());
    if (op == OpKind::get && call_.status == kv::OpStatus::ok)
      result.value = {call_.landing.data(), size, size};
    const auto key_bytes = static_cast<std::uint32_t>(call_.key.size());
    stats->payload_bytes += request_bytes(System::memcached, op, key_bytes, value.size) +
                            reply_bytes(System::memcached, op, call_.status, key_bytes, result.value.size);
    co_return result;
  }

  MemcachedWorker& shared_;
  const Settings& settings_;
  MemcachedCall call_;
};

}  // namespace

std::unique_ptr<kv::Client> make_memcached_client(MemcachedWorker& shared, const Settings& settings) {
  return std::make_unique<MemcachedClient>(shared, settings);
}

}  // namespace loch::baselines
