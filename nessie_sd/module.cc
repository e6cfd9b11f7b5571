// Registers nessie-sd: options, mutants, availability promises and store.
#include "nessie_sd/module.h"

#include <utility>

#include "common/coupled/variants.h"
#include "nessie_sd/store.h"

namespace loch::nessie_sd {
namespace {

constexpr const char* protocol = "nessie-sd";

// The known-bad variants, each with a fuzzer seed that finds it (printed by `loch fuzz --mutants`, run by
// app/fuzz/mutants_test.cc).
std::map<std::string, kv::Mutant> known_mutants() {
  return {
      {"no-duplicate-detection", {"a request that comes twice is executed twice (Q1)", 4}},
      {"trailer-without-order",
       {"a frame counts as here when its last word is, in whatever order it came", 2}},
      {"slot-read-twice", {"a worker takes what a slot says when it comes to it, not what it polled", 68}},
      {"slot-rewritten-unanswered", {"a request slot is used again before its reply has come (S2)", 66}},
      {"shared-reply-buffer",
       {"a server worker's replies are made in one buffer, which the NIC may not have "
        "read yet (rule 5)",
        1}},
      {"shared-tables", {"a node's workers serve any of its tables, without a lock", 8}},
      {"reply-names-low-bits",
       {"a reply says of the number that it answers the 16 low bits alone", 0, "write_channel_test"}},
      {"slots-not-taken-over",
       {"a client that comes back uses the slots of its former incarnation at once", 0,
        "write_channel_test"}},
      {"repeated-word", {"a request that is sent again has the polled word that it had before", 3}},
      {"old-life-executed", {"a request is sent again to a server that has crashed since", 422}},
      {"numbers-begin-anew",
       {"a client that comes back numbers its requests from the start", 0, "write_channel_test"}},
      {"keys-not-renewed", {"a node that restarted is addressed with the keys of its lost regions", 2}},
      {"server-does-not-reconnect", {"a server worker leaves a connection that is down as it is", 3}},
      {"moves-first-to-last", {"a path's moves are applied from the first one on", 13}},
      {"lost-row-served", {"a row that came back empty is served before it is declared lost", 2}},
      {"insert-replaces",
       {"an INSERT replaces the value of a key that is there, and says that it was not", 10}},
      {"timeout-is-no-effect", {"an operation that timed out says that it did nothing", 1}},
  };
}

Result<> apply_mutant(std::string_view mutant, coupled::Rules& rules, rpc::ChannelFlaws& flaws) {
  coupled::Switches switches = coupled::switches(rules, flaws);
  switches.insert({{"slot-read-twice", &flaws.rereads_slot},
                   {"slot-rewritten-unanswered", &flaws.rewrites_unanswered},
                   {"shared-reply-buffer", &flaws.shares_reply_buffer},
                   {"shared-tables", &rules.serves_any_row}});
  if (!coupled::switch_on(switches, mutant)) return coupled::no_such_mutant(protocol, mutant);
  return {};
}

class SdModule final : public kv::Module {
 public:
  [[nodiscard]] std::string_view name() const override { return protocol; }
  [[nodiscard]] std::string_view summary() const override {
    return "server-driven: request and reply by RDMA WRITE, workers poll, each owns a part of the keys";
  }
  [[nodiscard]] std::string_view paper() const override {
    return "NessieSD of Cassell et al., Nessie: A Decoupled, Client-Driven Key-Value Store Using RDMA, IEEE "
           "TPDS 2017";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override {
    return coupled::table_options(protocol);
  }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& /*options*/) const override {
    return kv::Consistency::linearizable;
  }
  [[nodiscard]] kv::DataSupport data(const kv::Options& /*options*/) const override {
    return coupled::data_support();
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& /*options*/) const override {
    // In-order placement of bytes is not required: without it, requests and replies carry a checksum.
    return {.rc = true, .untorn_bytes = 8};
  }
  [[nodiscard]] kv::Promise promise(kv::Loss loss, const kv::Options& /*options*/) const override {
    return coupled::promise(loss);
  }
  [[nodiscard]] std::vector<std::string> probes() const override {
    return {"rpc.write.", "rpc.value.", "coupled.table.", "cuckoo."};
  }
  // For servers the paper uses 2 of a node's 12 cores with values of 1 KB or more, and 3 with smaller values
  // (Nessie 2017, section 6).
  [[nodiscard]] std::uint32_t default_servers() const override { return 2; }
  [[nodiscard]] std::map<std::string, kv::Mutant> mutants() const override { return known_mutants(); }
  [[nodiscard]] std::map<std::string, std::string> fuzz_options(
      Rng& rng, const kv::DeployConfig& shape) const override {
    return coupled::fuzz_options(protocol, rng, shape);
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view mutant) const override {
    coupled::Rules rules;
    rpc::ChannelFlaws flaws;
    LOCH_TRY(apply_mutant(mutant, rules, flaws));
    LOCH_ASSIGN(coupled::Settings settings, coupled::decide(protocol, config, options, rules, flaws, 0));
    // entries are updated in place, so no spare entries are needed
    LOCH_TRY(coupled::fit_memory(settings, 0, 0));
    return std::make_unique<SdStore>(std::move(settings));
  }
};

}  // namespace

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules) {
  modules.push_back(std::make_unique<SdModule>());
}

}  // namespace loch::nessie_sd
