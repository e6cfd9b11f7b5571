// A decorator for an assumption: that servers work longer on each request than the steps of their code are
// charged for. Over the simulator.
#pragma once

#include <memory>

#include "common/fabric/fabric.h"

namespace loch::fabric {

// Takes ownership of the fabric. A server worker that has found a request in its slots (watch_any) or has
// received a message computes for `work` ns before its coroutine goes on. A server that takes several
// requests out of its slots at one look pays once for them.
[[nodiscard]] std::unique_ptr<Fabric> assume_server_work(std::unique_ptr<Fabric> inner, Nanos work);

}  // namespace loch::fabric
