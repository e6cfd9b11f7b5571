// memcached by libmemcached, in the text protocol.
//
// libmemcached's calls block: it has no interface by which the reply of a PUT can be awaited, it pipelines
// nothing but GETs (mget), and a handle is used by one thread at a time. So a worker with one window slot,
// whose thread has nothing else to do meanwhile, calls it directly. A worker with more has a courier for each
// server: a thread with a connection that fetches all waiting GETs by one mget and sends PUTs and DELETEs one
// by one. A server that is slow or gone holds up what goes to it and nothing else. Every wait inside the
// library ends at --memcached.timeout.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "baselines/reactor.h"
#include "baselines/redis_client.h"
#include "baselines/settings.h"
#include "baselines/text.h"
#include "common/kv/protocol.h"

struct memcached_st;

namespace loch::baselines {

// One request and its outcome. With couriers, the wait is finished when it has one.
struct MemcachedCall : Reactor::Wait {
  OpKind op = OpKind::get;
  std::string key;                 // as the server is told it
  kv::ValueView value;             // PUT
  std::vector<std::byte> landing;  // GET, ok: the value
  kv::OpStatus status = kv::OpStatus::error;
  kv::Effect effect = kv::Effect::none;
};

// A connection to one server, made when it is first used and again after anything went wrong on it. Used by
// one thread at a time.
class MemcachedConnection {
 public:
  MemcachedConnection(const Address& server, Nanos timeout, ConnectionCounts& counts);
  ~MemcachedConnection();
  MemcachedConnection(const MemcachedConnection&) = delete;
  MemcachedConnection& operator=(const MemcachedConnection&) = delete;

  void execute(MemcachedCall& call);
  // GETs, by one request.
  void get(std::span<MemcachedCall* const> calls);

 private:
  [[nodiscard]] memcached_st* handle();
  void close();
  void fetch_one(MemcachedCall& call);
  // Ends the remaining `calls` with `code`.
  void end(std::span<MemcachedCall* const> calls, int code);

  const Address& server_;
  Nanos timeout_;
  ConnectionCounts& counts_;
  memcached_st* handle_ = nullptr;
  std::vector<const char*> keys_;
  std::vector<std::size_t> key_sizes_;
};

// Where the couriers of one worker report; the worker's Reactor looks at it.
class CourierBoard {
 public:
  explicit CourierBoard(Reactor& reactor);
  ~CourierBoard();
  CourierBoard(const CourierBoard&) = delete;
  CourierBoard& operator=(const CourierBoard&) = delete;
  // Any thread.
  void post(std::span<MemcachedCall* const> ended);

 private:
  struct Bell : Reactor::Source {
    CourierBoard* board = nullptr;
  };
  static void on_ready(Reactor::Source* source, short events);
  Reactor& reactor_;
  Bell bell_;
  std::mutex mutex_;
  std::vector<MemcachedCall*> ended_;
};

// The thread that carries a worker's requests to one server.
class Courier {
 public:
  Courier(const Address& server, Nanos timeout, ConnectionCounts& counts, CourierBoard& board);
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;
  // Hands a call to the courier thread, which owns it until the caller's wait ends.
  void submit(MemcachedCall* call);

 private:
  void work();
  MemcachedConnection connection_;
  CourierBoard& board_;
  std::mutex mutex_;
  std::condition_variable wakes_;
  std::vector<MemcachedCall*> gets_, others_;
  bool is_ending_ = false;
  std::thread thread_;  // last: it uses the others
};

// What one worker has: connections that it uses itself where it has one window slot, else couriers.
struct MemcachedWorker {
  MemcachedWorker(fabric::Worker& worker, const std::vector<Address>& servers, ConnectionCounts& counts,
                  const Settings& settings);
  Reactor reactor;
  CourierBoard board;
  std::vector<std::unique_ptr<MemcachedConnection>> connections;  // by server
  std::vector<std::unique_ptr<Courier>> couriers;                 // by server
};

// `shared` and `settings` outlive it.
[[nodiscard]] std::unique_ptr<kv::Client> make_memcached_client(MemcachedWorker& shared,
                                                                const Settings& settings);

}  // namespace loch::baselines
