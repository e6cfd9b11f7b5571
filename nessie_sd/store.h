#pragma once

#include <map>
#include <memory>
#include <string>

#include "common/coupled/table_client.h"
#include "common/coupled/table_server.h"
#include "common/coupled/tables.h"
#include "common/kv/further_loads.h"
#include "common/kv/protocol.h"

namespace loch::nessie_sd {

class SdClient final : public kv::Client {
 public:
  SdClient(coupled::Tables& tables, fabric::Worker& worker, std::uint32_t lane)
      : requests_(tables, worker, lane) {}

  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override {
    return requests_.ask(coupled::Ask::get, key, {}, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats) override {
    return requests_.ask(coupled::Ask::put, key, value, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override {
    return requests_.ask(coupled::Ask::remove, key, {}, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> insert_if_absent(kv::Key key, kv::ValueView value,
                                                          fabric::OpStats* stats) override {
    return requests_.ask(coupled::Ask::insert_if_absent, key, value, stats);
  }

 private:
  coupled::TableClient requests_;
};

class SdStore final : public kv::Store, public kv::FurtherLoads {
 public:
  explicit SdStore(coupled::Settings settings) : tables_(std::move(settings)) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] std::map<std::string, double> counters() const override { return tables_.counters(); }
  [[nodiscard]] Result<> restart_node(fabric::Fabric& /*fabric*/, fabric::NodeId node) override {
    return tables_.restart_node(node);
  }
  [[nodiscard]] coro::Task<kv::Repair> declare_lost(fabric::Worker& worker,
                                                    std::vector<fabric::NodeId> lost) override {
    return tables_.declare_lost(&worker, std::move(lost));
  }
  [[nodiscard]] bool needs(kv::Key key, fabric::NodeId node,
                           std::optional<std::uint32_t> server) const override {
    return tables_.needs(key, node, server);
  }
  [[nodiscard]] std::vector<std::string> audit(const std::vector<fabric::NodeId>& lost) const override {
    return tables_.audit(lost);
  }

  [[nodiscard]] coupled::Tables& tables() { return tables_; }

 private:
  coupled::Tables tables_;
};

}  // namespace loch::nessie_sd
