// A client of memcached by libmemcached, in the text protocol.
//
// libmemcached's calls block: it has no interface for awaiting the reply to a PUT, it pipelines only GETs
// (mget), and a handle may be used by one thread at a time. A worker with one window slot (outstanding
// operation), whose thread has nothing else to do meanwhile, calls it directly. A worker with several slots
// has a courier for each server: a thread with a connection that sends all waiting GETs by one mget, and PUTs
// and DELETEs one by one. A slow or dead server therefore delays only its own requests. Every wait inside the
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

// One request and its outcome. If a courier thread executes the request, the client's coroutine waits on this
// object until the outcome is known.
struct MemcachedCall : Reactor::Wait {
  OpKind op = OpKind::get;
  std::string key;                 // the key as written into the request, by write_key_text()
  kv::ValueView value;             // the value that a PUT or INSERT sends
  std::vector<std::byte> landing;  // the value that a GET returned
  kv::OpStatus status = kv::OpStatus::error;
  kv::Effect effect = kv::Effect::none;
};

// A connection to one server, made on first use and again after any error. May be used by one thread at a
// time.
class MemcachedConnection {
 public:
  MemcachedConnection(const Address& server, Nanos timeout, ConnectionCounts& counts);
  ~MemcachedConnection();
  MemcachedConnection(const MemcachedConnection&) = delete;
  MemcachedConnection& operator=(const MemcachedConnection&) = delete;

  void execute(MemcachedCall& call);
  // GETs the keys of all `calls` by one request.
  void get(std::span<MemcachedCall* const> calls);

 private:
  [[nodiscard]] memcached_st* handle();
  void close();
  void fetch_one(MemcachedCall& call);
  // Gives all `calls` that have no outcome yet the outcome of libmemcached's return code `code`.
  void end(std::span<MemcachedCall* const> calls, int code);

  const Address& server_;
  Nanos timeout_;
  ConnectionCounts& counts_;
  memcached_st* handle_ = nullptr;
  std::vector<const char*> keys_;
  std::vector<std::size_t> key_sizes_;
};

// The list to which the courier threads of one worker, which execute blocking calls for it, append the calls
// that they have executed. The worker's Reactor is woken by a file descriptor, empties the list and resumes
// the coroutines that wait for these calls.
class CourierBoard {
 public:
  explicit CourierBoard(Reactor& reactor);
  ~CourierBoard();
  CourierBoard(const CourierBoard&) = delete;
  CourierBoard& operator=(const CourierBoard&) = delete;
  // Appends calls whose outcome is known; any thread may call this.
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

// A thread that sends one worker's requests to one server.
class Courier {
 public:
  Courier(const Address& server, Nanos timeout, ConnectionCounts& counts, CourierBoard& board);
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;
  // Passes a call to the courier thread, which uses the call until the caller's wait ends.
  void submit(MemcachedCall* call);

 private:
  void work();
  MemcachedConnection connection_;
  CourierBoard& board_;
  std::mutex mutex_;
  std::condition_variable wakes_;
  std::vector<MemcachedCall*> gets_, others_;
  bool is_ending_ = false;
  std::thread thread_;  // declared last, because the thread uses the other members
};

// The connections of one worker to all servers. A worker with one window slot (outstanding operation) uses
// `connections`; a worker with several slots passes its requests to the threads of `couriers`.
struct MemcachedWorker {
  MemcachedWorker(fabric::Worker& worker, const std::vector<Address>& servers, ConnectionCounts& counts,
                  const Settings& settings);
  Reactor reactor;
  CourierBoard board;
  std::vector<std::unique_ptr<MemcachedConnection>> connections;  // indexed by server
  std::vector<std::unique_ptr<Courier>> couriers;                 // indexed by server
};

// Makes the client of one window slot (outstanding operation). `shared` and `settings` have to outlive it.
[[nodiscard]] std::unique_ptr<kv::Client> make_memcached_client(MemcachedWorker& shared,
                                                                const Settings& settings);

}  // namespace loch::baselines
