// Registers race (RACE hashing): requirements, promises after failures, and the fixes and holes (known
// faults) of its variants.
#include "race/module.h"

#include <algorithm>
#include <utility>

#include "common/kv/variants.h"
#include "race/store.h"

namespace loch::race {
namespace {

class RaceModule final : public kv::Module {
 public:
  [[nodiscard]] std::string_view name() const override { return "race"; }
  [[nodiscard]] std::string_view summary() const override {
    return "client-driven hash table for memory nodes: GET by READs of two buckets and a block, PUT by WRITE "
           "and CAS";
  }
  [[nodiscard]] std::string_view paper() const override {
    return "Zuo et al., One-sided RDMA-Conscious Extendible Hashing for Disaggregated Memory, USENIX ATC "
           "2021";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override { return option_specs(); }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& /*options*/) const override {
    // The published variant is checked for linearizability too, although its holes (known faults) violate it.
    return kv::Consistency::linearizable;
  }
  [[nodiscard]] kv::DataSupport data(const kv::Options& options) const override {
    return kv::insert_by_put(options.choice("race.variant") == "hardened",
                             "its published INSERT does not know whether the key is there (R4)");
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& options) const override {
    return {.rc = true,
            .atomic_scope = fabric::AtomicScope::nic,
            .untorn_bytes = 8,
            .max_rd_atomic = 1,
            .receives_rc = chunks::managers(options) != 0};
  }
  [[nodiscard]] kv::Promise promise(kv::Loss loss, const kv::Options& options) const override {
    if (options.choice("race.variant") != "hardened") return kv::Promise::unavailable;
    switch (loss) {
      case kv::Loss::client_killed:
        return kv::Promise::after_scrub;
      case kv::Loss::server_killed:  // a client that has used up its blocks gets no new ones
        return chunks::managers(options) != 0 ? kv::Promise::unavailable : kv::Promise::serves;
      case kv::Loss::link_down:
        return kv::Promise::serves;
      case kv::Loss::memory_lost:  // no entry has a replica, and the paper does not treat lost memory
        return kv::Promise::unavailable;
    }
    return kv::Promise::unavailable;
  }
  [[nodiscard]] std::map<std::string, kv::Mutant> mutants() const override { return race::mutants(); }
  [[nodiscard]] std::vector<kv::Fix> fixes(const kv::Options& options) const override {
    if (options.choice("race.variant") != "published") return {};
    std::vector<kv::Fix> all = {
        {"R2",
         "two entries of a key are visible at once: a value comes back, or a key that is there is missed",
         "race.mend-r2"}};
    if (options.boolean("race.reuse"))
      all.push_back(
          {"R5", "a block that is used again is taken for the one that a word named", "race.mend-r5"});
    std::erase_if(all, [&](const kv::Fix& fix) { return options.boolean(fix.option); });
    return all;
  }
  [[nodiscard]] std::vector<kv::Hole> holes() const override {
    return kv::single_holes(*this, {{"race.variant", "published"}, {"race.reuse", "true"}},
                            {{"R2", 132}, {"R5", 134}});
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view mutant) const override {
    LOCH_ASSIGN(auto settings, decide(config, options, mutant));
    return std::make_unique<RaceStore>(std::move(settings));
  }
};

}  // namespace

std::unique_ptr<kv::Module> make_module() { return std::make_unique<RaceModule>(); }

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules) { modules.push_back(make_module()); }

}  // namespace loch::race
