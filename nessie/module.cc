// Registers nessie: requirements, availability promises, fixes, holes (known faults) and fuzzed options of
// its variants.
#include "nessie/module.h"

#include <algorithm>
#include <utility>

#include "common/chunks/plan.h"
#include "common/kv/variants.h"
#include "nessie/mutants.h"
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
    // The published variant is checked for linearizability too, although its holes (known faults) violate it:
    // the checker is expected to find them.
    return kv::Consistency::linearizable;
  }
  // Only the hardened variant has INSERT. The published PUT writes to the first slot that is EMPTY or holds
  // the key, and does not know then whether a later candidate slot holds the key.
  [[nodiscard]] kv::DataSupport data(const kv::Options& options) const override {
    return kv::insert_by_put(options.choice("nessie.variant") == "hardened",
                             "its published PUT does not know whether the key is there (H1)");
  }
  // The published variants return ok to a DELETE of an absent key, because they write and remove a
  // tombstone.
  [[nodiscard]] bool delete_ok_removes(const kv::Options& options) const override {
    return options.choice("nessie.variant") == "hardened";
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& options) const override {
    // In-order placement of bytes is not required: without it, a READ of an entry is awaited by its
    // completion and not by polling its last byte.
    fabric::Requirements needs{.rc = true,
                               .atomic_scope = fabric::AtomicScope::nic,
                               .untorn_bytes = 8,
                               .max_rd_atomic = 1,
                               .receives_rc = chunks::managers(options) != 0};
    // The expiry period alone does not make a CAS fail that is executed late (known fault H16 in
    // docs/protocols/nessie.md). The index word's generation number can, until it wraps around: that takes at
    // least 2^bits - 2 reuses of the data table entry, each of which comes an expiry period after the
    // previous one.
    if (options.choice("nessie.variant") == "hardened") {
      const std::int64_t filter_bits = options.integer("nessie.filter-bits");
      const std::int64_t bits = std::min<std::int64_t>(14, 21 - filter_bits);
      needs.request_lifetime_below = ((std::int64_t{1} << bits) - 2) * options.integer("nessie.expiry");
    }
    return needs;
  }
  [[nodiscard]] kv::Promise promise(kv::Loss loss, const kv::Options& options) const override {
    // The published texts do not define the effect of a client's or a node's death, or of a CAS that ends in
    // an error.
    if (options.choice("nessie.variant") != "hardened") return kv::Promise::unavailable;
    switch (loss) {
      case kv::Loss::client_killed:
        return options.choice("nessie.scrub") == "repair" && options.boolean("nessie.tagged-migrate")
                   ? kv::Promise::after_scrub
                   : kv::Promise::unavailable;
      case kv::Loss::server_killed:
        // Only memory nodes have server workers, which give out chunks: without, a client that has used up
        // its entries gets no new ones.
        return chunks::managers(options) != 0 ? kv::Promise::unavailable : kv::Promise::serves;
      case kv::Loss::memory_lost:
        // Memory nodes have no workers that would learn of a new incarnation, and entries have no replica.
        if (options.choice("nessie.placement") == "remote") return kv::Promise::unavailable;
        if (!options.boolean("nessie.tagged-migrate")) return kv::Promise::unavailable;
        // If the node does not come back, another node needs room for its share of the index.
        return options.integer("nessie.spare-shares") > 0 ? kv::Promise::after_declared
                                                          : kv::Promise::after_return;
      case kv::Loss::link_down:
        return options.boolean("nessie.tagged-migrate") ? kv::Promise::serves : kv::Promise::unavailable;
    }
    return kv::Promise::unavailable;
  }
  [[nodiscard]] std::map<std::string, kv::Mutant> mutants() const override { return nessie::mutants(); }
  [[nodiscard]] std::vector<kv::Fix> fixes(const kv::Options& options) const override {
    if (options.choice("nessie.variant") != "published" || options.choice("nessie.layout") != "2017")
      return {};
    std::vector<kv::Fix> all = {
        {"H1", "a PUT or DELETE removes an entry that is not its own, and may then give up",
         "nessie.mend-h1"},
        {"H2", "EMPTY words look alike: a slot that was filled and emptied seems unchanged",
         "nessie.mend-h2"},
        {"H7", "slots that were read before an inline MIGRATE are not read again", "nessie.mend-h7"},
        {"H10", "a DELETE whose last CAS fails reports success", "nessie.mend-h10"},
        {"H16", "the word of a DTE that is used again is the word it had before", "nessie.mend-h16"},
        {"H12", "a pending entry hides a committed one from GETs", "nessie.mend-pending"},
    };
    std::erase_if(all, [&](const kv::Fix& fix) { return options.boolean(fix.option); });
    return all;
  }
  [[nodiscard]] std::vector<kv::Hole> holes() const override {
    // hole_seeds() lists the holes (known faults) that the fuzzer finds; `loch explore` or a known-bad
    // variant shows the others.
    return kv::single_holes(*this, {{"nessie.variant", "published"}}, hole_seeds());
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

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules) { modules.push_back(make_module()); }

}  // namespace loch::nessie
