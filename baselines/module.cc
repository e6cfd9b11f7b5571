// The modules of memcached and Redis: real servers on real-time fabrics, a model on the simulator.
#include "baselines/module.h"

#include <fmt/format.h>

#include <utility>

#include "baselines/micro/module.h"
#include "baselines/model_store.h"
#include "baselines/settings.h"
#include "baselines/store.h"

namespace loch::baselines {
namespace {

// Chooses between real servers and the simulated ones when the first node is set up, because the fabric is
// not known before.
class EitherStore final : public kv::Store {
 public:
  explicit EitherStore(Settings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override {
    if (store_ == nullptr) {
      if (fabric.capabilities().simulated) {
        store_ = std::make_unique<ModelStore>(settings_);
      } else if (settings_.is_mutant()) {
        return fail(ErrorCode::unsupported,
                    "--mutant: those of the baselines are of their model, --fabric sim");
      } else {
        store_ = std::make_unique<RealStore>(settings_);
      }
    }
    return store_->setup_node(fabric, node);
  }
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override { return store_->connect(fabric); }
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override {
    return store_->preload(fabric, data);
  }
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override {
    return store_->serve(worker, index);
  }
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override {
    return store_->client(worker, slot);
  }
  [[nodiscard]] bool has_background() const override { return store_->has_background(); }
  [[nodiscard]] coro::Task<void> background(fabric::Worker& worker, const bool* done) override {
    return store_->background(worker, done);
  }
  [[nodiscard]] std::map<std::string, double> counters() const override { return store_->counters(); }
  [[nodiscard]] std::string transport() const override { return store_->transport(); }

 private:
  Settings settings_;
  std::unique_ptr<kv::Store> store_;
};

class BaselineModule final : public kv::Module {
 public:
  explicit BaselineModule(System system) : system_(system) {}
  [[nodiscard]] std::string_view name() const override { return baselines::name(system_); }
  [[nodiscard]] std::string_view summary() const override {
    return system_ == System::memcached
               ? "Debian's memcached by libmemcached over kernel sockets; on sim a model of kernel TCP "
                 "(modelled)"
               : "Debian's Redis by hiredis over kernel sockets; on sim a model of kernel TCP (modelled)";
  }
  [[nodiscard]] std::string_view paper() const override {
    return "the system itself; as a point of comparison and the model: Mitchell et al., Pilaf, USENIX ATC "
           "2013, "
           "2.1 and 5.4";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override { return option_specs(system_); }
  [[nodiscard]] kv::DataSupport data(const kv::Options& /*options*/) const override {
    const char* const command = system_ == System::memcached ? "by the server: add" : "by the server: SETNX";
    return {.keys = kv::Sizing::own,
            .values = kv::Sizing::own,
            .insert_if_absent = {.is_there = true, .how = command}};
  }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& options) const override {
    // With --NAME.address, servers were not started by Loch and may evict records, so linearizability is not
    // claimed.
    return options.text(std::string(name()) + ".address").empty() ? kv::Consistency::linearizable
                                                                  : kv::Consistency::lossy_cache;
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& /*options*/) const override {
    // no requirements: real servers use kernel sockets, and the modelled store checks what it needs
    return {};
  }
  [[nodiscard]] std::uint32_t default_servers() const override { return 1; }
  [[nodiscard]] std::map<std::string, kv::Mutant> mutants() const override { return baselines::mutants(); }
  [[nodiscard]] std::map<std::string, std::string> fuzz_options(
      Rng& rng, const kv::DeployConfig& /*shape*/) const override {
    return {{std::string(name()) + ".link", rng.chance(0.5) ? "ipoib" : "ethernet"}};
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view mutant) const override {
    LOCH_ASSIGN(Settings settings, decide(system_, config, options, mutant));
    return std::make_unique<EitherStore>(std::move(settings));
  }

 private:
  System system_;
};

}  // namespace

std::unique_ptr<kv::Module> make_module(System system) { return std::make_unique<BaselineModule>(system); }

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules) {
  modules.push_back(make_module(System::memcached));
  modules.push_back(make_module(System::redis));
  micro::add_modules(modules);
}

}  // namespace loch::baselines
