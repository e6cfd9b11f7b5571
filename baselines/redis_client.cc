// Connects to Redis servers by hiredis, pipelines requests, and matches replies and time-outs to operations.
#include "baselines/redis_client.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <poll.h>

#include <array>
#include <cstring>

#include "common/base/check.h"

namespace loch::baselines {

RedisConnection::RedisConnection(Reactor& reactor, Address address, ConnectionCounts& counts)
    : reactor_(reactor), address_(std::move(address)), counts_(counts) {
  socket_.connection = this;
  socket_.ready = on_ready;
}

RedisConnection::~RedisConnection() { close(); }

void RedisConnection::close() {
  if (context_ != nullptr) redisAsyncFree(context_);  // redisAsyncFree() calls on_cleanup()
}

bool RedisConnection::open() {
  if (context_ != nullptr) return true;
  redisAsyncContext* made = address_.is_unix() ? redisAsyncConnectUnix(address_.path.c_str())
                                               : redisAsyncConnect(address_.host.c_str(), address_.port);
  if (made == nullptr || made->err != 0) {
    if (made != nullptr) redisAsyncFree(made);
    ++counts_.failed;
    return false;
  }
  ++counts_.opened;
  context_ = made;
  socket_.fd = made->c.fd;
  socket_.events = 0;
  made->data = this;
  made->ev.data = this;
  made->ev.addRead = [](void* self) { static_cast<RedisConnection*>(self)->socket_.events |= POLLIN; };
  made->ev.delRead = [](void* self) { static_cast<RedisConnection*>(self)->socket_.events &= ~POLLIN; };
  made->ev.addWrite = [](void* self) { static_cast<RedisConnection*>(self)->socket_.events |= POLLOUT; };
  made->ev.delWrite = [](void* self) { static_cast<RedisConnection*>(self)->socket_.events &= ~POLLOUT; };
  made->ev.cleanup = on_cleanup;
  reactor_.add(&socket_);
  return true;
}

void RedisConnection::on_cleanup(void* self) {
  auto* connection = static_cast<RedisConnection*>(self);
  connection->reactor_.remove(&connection->socket_);
  connection->context_ = nullptr;
}

void RedisConnection::on_ready(Reactor::Source* source, short events) {
  RedisConnection* self = static_cast<Socket*>(source)->connection;
  // hiredis notices a closed or broken connection only by reading or writing.
  const bool is_broken = (events & (POLLERR | POLLHUP | POLLNVAL)) != 0;
  const bool wants_write = (source->events & POLLOUT) != 0;
  if ((events & POLLOUT) != 0 || (is_broken && wants_write)) {
    redisAsyncHandleWrite(self->context_);
    if (self->context_ == nullptr) return;
  }
  if ((events & POLLIN) != 0 || (is_broken && !wants_write)) redisAsyncHandleRead(self->context_);
}

void RedisConnection::on_expired(Reactor::Wait* wait) {
  auto* request = static_cast<RedisRequest*>(wait);
  RedisConnection* self = request->connection;
  ++self->counts_.timed_out;
  request->status = kv::OpStatus::timeout;
  // After a time-out the late reply may still arrive, before the replies to later requests; closing the
  // connection discards all of them.
  self->close();
  self->reactor_.finish(request);
}

void RedisConnection::on_reply(redisAsyncContext* context, void* reply, void* privdata) {
  auto* self = static_cast<RedisConnection*>(context->data);
  auto* request = static_cast<RedisRequest*>(privdata);
  if (reply != nullptr) {
    self->take(*request, *static_cast<const redisReply*>(reply));
  } else {
    if (request->status != kv::OpStatus::timeout) ++self->counts_.failed;
    if (request->op != OpKind::get) request->effect = kv::Effect::unknown;
  }
  self->reactor_.finish(request);
}

void RedisConnection::take(RedisRequest& request, const redisReply& reply) {
  using kv::OpStatus;
  if (reply.type == REDIS_REPLY_ERROR) {
    // An error reply means that the server did not execute the request.
    const std::string_view text(reply.str, static_cast<std::size_t>(reply.len));
    request.status = text.starts_with("OOM") ? OpStatus::table_full : OpStatus::error;
    return;
  }
  switch (request.op) {
    case OpKind::get:
      if (reply.type == REDIS_REPLY_NIL) request.status = OpStatus::not_found;
      if (reply.type != REDIS_REPLY_STRING) break;
      request.landing->resize(static_cast<std::size_t>(reply.len));
      std::memcpy(request.landing->data(), reply.str, request.landing->size());
      request.status = OpStatus::ok;
      break;
    case OpKind::put:
      if (reply.type == REDIS_REPLY_STATUS) request.status = OpStatus::ok;
      break;
    case OpKind::insert_if_absent:
      if (reply.type == REDIS_REPLY_INTEGER)
        request.status = reply.integer > 0 ? OpStatus::ok : OpStatus::exists;
      break;
    case OpKind::remove:
      if (reply.type == REDIS_REPLY_INTEGER)
        request.status = reply.integer > 0 ? OpStatus::ok : OpStatus::not_found;
      break;
    case OpKind::lost:  // clients send no such request
      LOCH_CHECK(false);
  }
  // The reply has a wrong type, so the server may not be Redis: the effect is unknown.
  if (request.status == OpStatus::error && request.op != OpKind::get) request.effect = kv::Effect::unknown;
}

void RedisConnection::send(RedisRequest* request, std::string_view key, kv::ValueView value) {
  constexpr std::array<std::string_view, op_kinds> verbs = {"GET", "SET", "DEL", "SETNX"};
  request->connection = this;
  request->expired = on_expired;
  reactor_.begin(request);
  if (!open()) {
    reactor_.finish(request);
    return;
  }
  const std::string_view verb = verbs[static_cast<std::size_t>(request->op)];
  const std::array<const char*, 3> words = {verb.data(), key.data(),
                                            reinterpret_cast<const char*>(value.data)};
  const std::array<std::size_t, 3> sizes = {verb.size(), key.size(), value.size};
  const int count = brings_value(request->op) ? 3 : 2;
  // hiredis 0.14 takes pointers to non-const, but only reads.
  auto** arguments = const_cast<const char**>(words.data());
  if (redisAsyncCommandArgv(context_, on_reply, request, count, arguments, sizes.data()) != REDIS_OK)
    reactor_.finish(request);
}

RedisWorker::RedisWorker(fabric::Worker& worker, const std::vector<Address>& servers,
                         ConnectionCounts& counts)
    : reactor(worker) {
  for (const Address& server : servers)
    connections.push_back(std::make_unique<RedisConnection>(reactor, server, counts));
}

namespace {

class RedisClient final : public kv::Client {
 public:
  RedisClient(fabric::Worker& worker, RedisWorker& shared, const Settings& settings)
      : worker_(worker), shared_(shared), settings_(settings) {
    shared_.reactor.add_client();
  }
  ~RedisClient() override { shared_.reactor.remove_client(); }

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
    RedisRequest request;
    request.op = op;
    request.landing = &landing_;
    request.deadline = worker_.now() + settings_.timeout;
    const std::string_view text(reinterpret_cast<const char*>(key.data), key.size);
    shared_.connections[settings_.server_of(key)]->send(&request, text, value);
    co_await shared_.reactor.finished(&request);
    kv::OpResult result;
    result.status = request.status;
    result.effect = request.effect;
    const bool is_value = op == OpKind::get && request.status == kv::OpStatus::ok;
    const auto size = static_cast<std::uint32_t>(landing_.size());
    if (is_value) result.value = {landing_.data(), size, size};
    stats->payload_bytes += request_bytes(System::redis, op, key.size, value.size) +
                            reply_bytes(System::redis, op, request.status, key.size, is_value ? size : 0);
    co_return result;
  }

  fabric::Worker& worker_;
  RedisWorker& shared_;
  const Settings& settings_;
  std::vector<std::byte> landing_;
};

}  // namespace

std::unique_ptr<kv::Client> make_redis_client(fabric::Worker& worker, RedisWorker& shared,
                                              const Settings& settings) {
  return std::make_unique<RedisClient>(worker, shared, settings);
}

}  // namespace loch::baselines
