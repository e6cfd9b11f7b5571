// Runs Nessie in a StoreCluster (tests/support/), for tests and measurements.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "nessie/client.h"
#include "nessie/module.h"
#include "nessie/store.h"
#include "tests/support/store_cluster.h"

namespace loch::nessie::testing {

using support::PatternData;

class TestRun : public support::StoreCluster {
 public:
  TestRun(std::unique_ptr<fabric::Fabric> fabric, const kv::DeployConfig& config,
          const std::map<std::string, std::string>& options, const std::string& mutant = {})
      : StoreCluster(std::move(fabric), *make_module(),
                     {.config = config, .options = options, .mutant = mutant}) {}

  [[nodiscard]] NessieStore& store() { return static_cast<NessieStore&>(StoreCluster::store()); }
  [[nodiscard]] NessieClient& client(std::size_t w) {
    return static_cast<NessieClient&>(StoreCluster::client(w));
  }
};

}  // namespace loch::nessie::testing
