// The module of drtm-em: its requirements, mutants and store.
#include "drtm_em/module.h"

#include <array>
#include <utility>

#include "drtm_em/store.h"

namespace loch::drtm {
namespace {

class DrtmModule final : public kv::Module {
 public:
  [[nodiscard]] std::string_view name() const override { return "drtm-em"; }
  [[nodiscard]] std::string_view summary() const override {
    return "DrTM-KV, emulated: GET by one READ, PUT by two atomics on the item's state";
  }
  [[nodiscard]] std::string_view paper() const override {
    return "Kalia et al., Design Guidelines for High Performance RDMA Systems, USENIX ATC 2016, section "
           "4.3.2";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override { return option_specs(); }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& /*options*/) const override {
    return kv::Consistency::none;
  }
  [[nodiscard]] std::string_view unverifiable() const override {
    return "emulates the traffic of a store: its PUTs lock and unlock an item and write no value";
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& /*options*/) const override {
    // PUTs change items by atomics on the state word only. No WRITE can therefore overlap a READ and tear it,
    // and in-order placement is not needed.
    return {.rc = true, .atomic_scope = fabric::AtomicScope::nic, .max_rd_atomic = 1};
  }
  [[nodiscard]] std::map<std::string, kv::Mutant> mutants() const override { return Fault::mutants(); }
  [[nodiscard]] std::map<std::string, std::string> fuzz_options(
      Rng& rng, const kv::DeployConfig& /*shape*/) const override {
    constexpr std::array<const char*, 3> few = {"1", "2", "3"};
    return {{"drtm-em.atomics", rng.chance(0.5) ? "cas" : "faa"},
            {"drtm-em.lanes", few[rng.below(few.size())]},
            {"drtm-em.posting-list", few[rng.below(few.size())]},
            {"drtm-em.signal-every", few[rng.below(few.size())]},
            {"drtm-em.patience", "1s"}};
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view mutant) const override {
    LOCH_ASSIGN(auto settings, decide(config, options, mutant));
    return std::make_unique<DrtmStore>(std::move(settings));
  }
};

}  // namespace

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules) {
  modules.push_back(std::make_unique<DrtmModule>());
}

}  // namespace loch::drtm
