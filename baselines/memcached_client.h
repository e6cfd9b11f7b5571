// memcached by libmemcached, in the text protocol. Every window slot has a connection of its own to each
// server.
//
// libmemcached's calls block: it has no interface by which the reply of a PUT can be awaited, and a handle
// is used by one thread at a time. So a worker with one window slot, whose thread has nothing else to do
// meanwhile, calls it directly; a worker with more gives each slot a thread that does, as libmemcached's
// manual has it, and waits for all of them at once. Every wait inside the library ends at
// --memcached.timeout.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
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

// One request and its outcome.
struct MemcachedCall {
  Op op = Op::get;
  std::uint32_t server = 0;
  std::string key;      // as the server is told it
  kv::ValueView value;  // PUT: what to store; GET, ok: what was found, valid until the session's next call
  kv::OpStatus status = kv::OpStatus::error;
  kv::Effect effect = kv::Effect::none;
};

// The connections of one window slot, by server. Used by one thread at a time.
class MemcachedSession {
 public:
  MemcachedSession(const std::vector<Address>& servers, Nanos timeout, ConnectionCounts& counts);
  ~MemcachedSession();
  MemcachedSession(const MemcachedSession&) = delete;
  MemcachedSession& operator=(const MemcachedSession&) = delete;

  // Connects if need be, asks, and takes the reply. A connection on which anything went wrong is closed.
  void execute(MemcachedCall& call);

 private:
  [[nodiscard]] memcached_st* handle(std::uint32_t server);
  void close(std::uint32_t server);

  const std::vector<Address>& servers_;
  Nanos timeout_;
  ConnectionCounts& counts_;
  std::vector<memcached_st*> handles_;  // null: not connected
  char* found_ = nullptr;               // the value of the latest GET
};

// Where the threads of one worker's slots report; the worker's Reactor looks at it.
class LaneBoard {
 public:
  explicit LaneBoard(Reactor& reactor);
  ~LaneBoard();
  LaneBoard(const LaneBoard&) = delete;
  LaneBoard& operator=(const LaneBoard&) = delete;
  // Any thread.
  void post(Reactor::Wait* ended);

 private:
  struct Bell : Reactor::Source {
    LaneBoard* board = nullptr;
  };
  static void on_ready(Reactor::Source* source, short events);
  Reactor& reactor_;
  Bell bell_;
  std::mutex mutex_;
  std::vector<Reactor::Wait*> ended_;
};

// The thread of one window slot.
class Lane {
 public:
  Lane(MemcachedSession& session, LaneBoard& board);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  // `wait` is finished through the board when the call has its outcome. One call at a time.
  void submit(MemcachedCall* call, Reactor::Wait* wait);

 private:
  void work();
  MemcachedSession& session_;
  LaneBoard& board_;
  std::mutex mutex_;
  std::condition_variable wakes_;
  MemcachedCall* call_ = nullptr;
  Reactor::Wait* wait_ = nullptr;
  bool is_ending_ = false;
  std::thread thread_;
};

// What the slots of one worker share, where there are several.
struct MemcachedWorker {
  explicit MemcachedWorker(fabric::Worker& worker) : reactor(worker), board(reactor) {}
  Reactor reactor;
  LaneBoard board;
};

// `shared` (null: the worker has one slot), `servers`, `counts` and `settings` outlive it.
[[nodiscard]] std::unique_ptr<kv::Client> make_memcached_client(MemcachedWorker* shared,
                                                                const std::vector<Address>& servers,
                                                                ConnectionCounts& counts,
                                                                const Settings& settings);

}  // namespace loch::baselines
