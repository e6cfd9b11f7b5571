// Registers nessie-hy: requirements, availability promises and store.
#include "nessie_hy/module.h"

#include <utility>

#include "common/coupled/variants.h"
#include "nessie_hy/store.h"

namespace loch::nessie_hy {
namespace {

class HyModule final : public kv::Module {
 public:
  [[nodiscard]] std::string_view name() const override { return protocol; }
  [[nodiscard]] std::string_view summary() const override {
    return "hybrid: GET by READs of index and data, PUT and DELETE by polled workers";
  }
  [[nodiscard]] std::string_view paper() const override {
    return "NessieHY of Cassell et al., Nessie: A Decoupled, Client-Driven Key-Value Store Using RDMA, IEEE "
           "TPDS 2017";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override { return option_specs(); }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& /*options*/) const override {
    // The published variant is checked for linearizability too, although its holes (known faults) violate it:
    // the checker is expected to find them.
    return kv::Consistency::linearizable;
  }
  [[nodiscard]] kv::DataSupport data(const kv::Options& /*options*/) const override {
    return coupled::data_support();
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& options) const override {
    // In-order placement of bytes is not required: without it, requests and replies carry a checksum, and
    // READs of entries are awaited by completion.
    fabric::Requirements needs{.rc = true, .untorn_bytes = 8, .max_rd_atomic = 1};
    if (options.choice("nessie-hy.index-access") == "nic") needs.atomic_scope = fabric::AtomicScope::nic;
    return needs;
  }
  [[nodiscard]] kv::Promise promise(kv::Loss loss, const kv::Options& /*options*/) const override {
    return coupled::promise(loss);
  }
  [[nodiscard]] std::vector<std::string> probes() const override {
    return {"rpc.write.", "coupled.", "cuckoo.", "nessie-hy."};
  }
  // The paper uses 3 of 12 cores for servers, at 50 % GETs and values up to 32 KB (Nessie, 2017, 6).
  [[nodiscard]] std::uint32_t default_servers() const override { return 3; }
  [[nodiscard]] std::map<std::string, kv::Mutant> mutants() const override { return known_mutants(); }
  [[nodiscard]] std::vector<kv::Fix> fixes(const kv::Options& options) const override {
    return known_fixes(options);
  }
  [[nodiscard]] std::vector<kv::Hole> holes() const override { return known_holes(); }
  [[nodiscard]] std::map<std::string, std::string> fuzz_options(
      Rng& rng, const kv::DeployConfig& shape) const override {
    return coupled::fuzz_options(protocol, rng, shape);
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view mutant) const override {
    LOCH_ASSIGN(Settings settings, decide(config, options, mutant));
    return std::make_unique<HyStore>(std::move(settings));
  }
};

}  // namespace

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules) {
  modules.push_back(std::make_unique<HyModule>());
}

}  // namespace loch::nessie_hy
