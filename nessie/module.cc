#include "nessie/module.h"

#include <utility>

#include "nessie/store.h"

namespace loch::nessie {
namespace {

class NessieModule final : public kv::Module {
 public:
  [[nodiscard]] std::string_view name() const override { return "nessie"; }
  [[nodiscard]] std::string_view summary() const override {
    return "client-driven: GET by READs, PUT by READs and CAS, index and data decoupled";
  }
  [[nodiscard]] std::string_view paper() const override {
    return "Cassell et al., Nessie: A Decoupled, Client-Driven Key-Value Store Using RDMA, IEEE TPDS 2017";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override { return option_specs(); }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& /*options*/) const override {
    // The published variant is held to the same claim: that it breaks it is a finding.
    return kv::Consistency::linearizable;
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& /*options*/) const override {
    // In-order placement is not required: without it, entries are awaited by completion.
    return {.rc = true, .atomic_scope = fabric::AtomicScope::nic, .untorn_bytes = 8, .max_rd_atomic = 1};
  }
  [[nodiscard]] std::map<std::string, std::string> mutants() const override {
    return {
        {"no-reverse-pass", "single-read version check: neither GET nor PUT reads the slots again"},
        {"empty-not-unique", "EMPTY is one constant: ABA on empty slots (H2)"},
        {"destructive-put", "a PUT removes other entries of its key before it commits (H1)"},
        {"remove-before-commit", "a PUT empties the old entry's slot, then inserts"},
        {"rollback-to-empty", "an aborted PUT empties its slot instead of restoring it (H3)"},
        {"reuse-before-expiry", "a stamped DTE is reused at once"},
        {"no-time-check", "operations do not end after the expiry period"},
        {"no-generation", "no reuse count in the word, early reuse: ABA on occupied slots (H16)"},
        {"cpu-cas-on-index", "the own node's index words are swapped by the CPU (H18)"},
        {"unlock-by-write", "a slot is cleared or restored by WRITE instead of CAS"},
        {"migrate-copies-prev", "a MIGRATE's copy names its source as previous version (H6)"},
        {"link-before-write", "the CAS overtakes the stores to the DTE (H20)"},
        {"tail-poll-without-order",
         "a DTE counts as here when its last byte is, in whatever order it came (H19)"},
    };
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view mutant) const override {
    LOCH_ASSIGN(auto settings, decide(config, options, mutant));
    return std::make_unique<NessieStore>(std::move(settings));
  }
};

}  // namespace

std::unique_ptr<kv::Module> make_module() { return std::make_unique<NessieModule>(); }

}  // namespace loch::nessie
