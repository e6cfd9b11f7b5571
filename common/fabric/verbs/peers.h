// The addresses and regions of all nodes, as this process uses them. Control path: the set-up thread updates
// them until the connector starts, and the connector's thread from then on. Workers read the tables without a
// lock, so an update replaces a whole table, and the old tables are kept until the fabric is destroyed.
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
  // Adds or replaces the record of a node, whose addresses and regions are used from now on.
  [[nodiscard]] Result<> put(NodeRecord record);
  // Publishes, for each rail, a new table of the UD queue pairs that may send to this process. Called after
  // put().
  void publish_senders();

 private:
  Shared* shared_;
  std::vector<Owned<ibv_ah, ibv_destroy_ah>> address_handles_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<DatagramSources>> senders_;
};

}  // namespace loch::fabric::verbs
