// Redis by hiredis' asynchronous interface. A worker has one connection to each server; the requests of its
// window slots go over it one behind the other (pipelined), and replies come in their order.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "baselines/reactor.h"
#include "baselines/settings.h"
#include "baselines/text.h"
#include "common/kv/protocol.h"

struct redisAsyncContext;
struct redisReply;

namespace loch::baselines {

// What happened to connections, over all workers.
struct ConnectionCounts {
  std::atomic<std::uint64_t> opened = 0, failed = 0, timed_out = 0;
};

class RedisConnection;

// One request under way; lives in its operation's frame.
struct RedisRequest : Reactor::Wait {
  OpKind op = OpKind::get;
  RedisConnection* connection = nullptr;
  std::vector<std::byte>* landing = nullptr;  // GET: where the value goes
  kv::OpStatus status = kv::OpStatus::error;
  kv::Effect effect = kv::Effect::none;  // of a PUT or DELETE that is neither ok nor not_found
};

class RedisConnection {
 public:
  RedisConnection(Reactor& reactor, Address address, ConnectionCounts& counts);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // Puts the request on its way, connecting first if need be; its wait is begun, and finished when it has
  // its status, at once where nothing could be sent.
  void send(RedisRequest* request, std::string_view key, kv::ValueView value);
  // Ends the connection: what is under way ends as an error.
  void close();

 private:
  struct Socket : Reactor::Source {
    RedisConnection* connection = nullptr;
  };
  [[nodiscard]] bool open();
  static void on_ready(Reactor::Source* source, short events);
  static void on_reply(redisAsyncContext* context, void* reply, void* request);
  static void on_cleanup(void* self);
  static void on_expired(Reactor::Wait* wait);
  void take(RedisRequest& request, const redisReply& reply);

  Reactor& reactor_;
  Address address_;
  ConnectionCounts& counts_;
  redisAsyncContext* context_ = nullptr;
  Socket socket_;
};

// The connections of one worker, by server.
struct RedisWorker {
  RedisWorker(fabric::Worker& worker, const std::vector<Address>& servers, ConnectionCounts& counts);
  Reactor reactor;
  std::vector<std::unique_ptr<RedisConnection>> connections;
};

// `shared` and `settings` outlive it.
[[nodiscard]] std::unique_ptr<kv::Client> make_redis_client(fabric::Worker& worker, RedisWorker& shared,
                                                            const Settings& settings);

}  // namespace loch::baselines
