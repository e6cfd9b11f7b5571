// A client of Redis by hiredis' asynchronous interface. A worker has one connection to each server, over
// which the requests of its outstanding operations are pipelined; replies come in the order of requests.
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

// Counters of connection events, for all workers.
struct ConnectionCounts {
  std::atomic<std::uint64_t> opened = 0, failed = 0, timed_out = 0;
};

class RedisConnection;

// An outstanding request; lives in its operation's coroutine frame.
struct RedisRequest : Reactor::Wait {
  OpKind op = OpKind::get;
  RedisConnection* connection = nullptr;
  std::vector<std::byte>* landing = nullptr;  // buffer for the value that a GET returns
  kv::OpStatus status = kv::OpStatus::error;
  kv::Effect effect = kv::Effect::none;  // effect of a PUT or DELETE whose status is neither ok nor not_found
};

class RedisConnection {
 public:
  RedisConnection(Reactor& reactor, Address address, ConnectionCounts& counts);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // Sends the request, after connecting if needed. The request's wait ends with the reply or, if sending
  // fails, at once; the request's status is then set.
  void send(RedisRequest* request, std::string_view key, kv::ValueView value);
  // Closes the connection, which ends outstanding requests with an error.
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

// The connections of one worker, indexed by server.
struct RedisWorker {
  RedisWorker(fabric::Worker& worker, const std::vector<Address>& servers, ConnectionCounts& counts);
  Reactor reactor;
  std::vector<std::unique_ptr<RedisConnection>> connections;
};

// Makes the client of one window slot (outstanding operation). `shared` and `settings` have to outlive it.
[[nodiscard]] std::unique_ptr<kv::Client> make_redis_client(fabric::Worker& worker, RedisWorker& shared,
                                                            const Settings& settings);

}  // namespace loch::baselines
