// Puts the layouts of the types that tools/gdb/loch_gdb.py reads into the program's debug information. All
// other files are compiled with line tables only; this file has full debug information and no code.
#include "common/coro/frame_pool.h"
#include "common/coro/scope.h"
#include "common/fabric/decorator.h"
#include "common/fabric/fabric.h"
#include "common/fabric/realtime/worker.h"
#include "common/fabric/sim/worker.h"

namespace loch::gdb {

// Names every type once, because debug information describes only types that are used.
struct Layouts {
  coro::FramePool* pool;
  coro::Scope* scope;
  coro::RunQueue* run_queue;
  fabric::Worker* worker;
  fabric::Worker::Operation* operation;
  fabric::Worker::Chain* chain;
  fabric::TimerWait* timer;
  fabric::WatchWait* watch;
  fabric::ReceiveWait* receive;
  fabric::ReconnectWait* reconnect;
  fabric::WrappedWorker* wrapped;
  fabric::realtime::RealtimeWorker* realtime;
  fabric::sim::SimWorker* sim;
  fabric::sim::SimWatch* sim_watch;
  fabric::sim::QueuePair* queue_pair;
};

[[gnu::used]] const Layouts* const layouts = nullptr;
// Makes the debug information locate the pointer to each thread's frame pool in thread-local storage.
[[gnu::used]] coro::FramePool* (*const pool_of_thread)(coro::FramePool*) = &coro::FramePool::exchange_local;

}  // namespace loch::gdb
