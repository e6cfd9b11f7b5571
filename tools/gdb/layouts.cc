// Gives a program the layouts of the types that tools/gdb/loch_gdb.py reads. The presets compile everything
// with line tables alone; this one file is compiled with full debug information and holds no code.
#include "common/coro/frame_pool.h"
#include "common/coro/scope.h"
#include "common/fabric/decorator.h"
#include "common/fabric/fabric.h"
#include "common/fabric/realtime/worker.h"
#include "common/fabric/sim/worker.h"

namespace loch::gdb {

// Debug information describes a type where something of that type is named.
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
// Each thread's frames: the pointer's place in thread-local storage.
[[gnu::used]] coro::FramePool* (*const pool_of_thread)(coro::FramePool*) = &coro::FramePool::exchange_local;

}  // namespace loch::gdb
