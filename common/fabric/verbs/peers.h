// The nodes as this process reaches them. Control path: the set-up thread's until the connector starts,
// and the connector's from then on. What workers read is replaced as a whole, and kept until the end.
#pragma once

#include <memory>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/endpoint.h"
#include "common/fabric/verbs/sources.h"
#include "common/fabric/verbs/worker.h"

namespace loch::fabric::verbs {

class Peers {
 public:
  explicit Peers(Shared* shared) : shared_(shared) {}
  // The node is reached as its record says, from now on.
  [[nodiscard]] Result<> put(NodeRecord record);
  // After put(): the datagrams of all who can be reached are known by their senders.
  void publish_senders();

 private:
  Shared* shared_;
  std::vector<Owned<ibv_ah, ibv_destroy_ah>> address_handles_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<DatagramSources>> senders_;
};

}  // namespace loch::fabric::verbs
