// The modules of the four microbenchmarks.
#include "baselines/micro/module.h"

#include "baselines/micro/echo_send.h"
#include "baselines/micro/echo_settings.h"
#include "baselines/micro/echo_write.h"
#include "baselines/micro/lookup.h"
#include "baselines/micro/settings.h"
#include "baselines/micro/store.h"

namespace loch::micro {
namespace {

constexpr std::string_view stores_nothing =
    "is a microbenchmark: its operations are traffic and store nothing";

class TrafficModule final : public kv::Module {
 public:
  explicit TrafficModule(Kind kind) : kind_(kind) {}
  [[nodiscard]] std::string_view name() const override { return micro::name(kind_); }
  [[nodiscard]] std::string_view summary() const override {
    return kind_ == Kind::verbs
               ? "microbenchmark: an operation is READs, WRITEs or SENDs of one size; stores nothing"
               : "microbenchmark: an operation is FAAs or CASes over some counters; stores nothing";
  }
  [[nodiscard]] std::string_view paper() const override {
    return "Kalia et al., Design Guidelines for High Performance RDMA Systems, USENIX ATC 2016, section 5";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override { return option_specs(kind_); }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& /*options*/) const override {
    return kv::Consistency::none;
  }
  [[nodiscard]] std::string_view unverifiable() const override { return stores_nothing; }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& options) const override {
    return micro::requirements(kind_, options);
  }
  [[nodiscard]] std::map<std::string, std::string> fuzz_options(
      Rng& rng, const kv::DeployConfig& /*shape*/) const override {
    const std::string own(name());
    std::map<std::string, std::string> drawn;
    drawn[own + ".batch"] = std::to_string(1 + rng.below(8));
    drawn[own + ".queue-pairs"] = std::to_string(1 + rng.below(4));
    if (kind_ == Kind::verbs) {
      drawn[own + ".verb"] = rng.chance(0.5) ? "read" : "write";
    } else {
      drawn[own + ".verb"] = rng.chance(0.5) ? "faa" : "cas";
      drawn[own + ".counters"] = std::to_string(1 + rng.below(32));
    }
    return drawn;
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view /*mutant*/) const override {
    LOCH_ASSIGN(Settings settings, decide(kind_, config, options));
    return std::make_unique<TrafficStore>(std::move(settings));
  }

 private:
  Kind kind_;
};

class EchoModule final : public kv::Module {
 public:
  [[nodiscard]] std::string_view name() const override { return "micro-echo"; }
  [[nodiscard]] std::string_view summary() const override {
    return "microbenchmark: a request and its reply, by WRITEs or by SENDs; stores nothing";
  }
  [[nodiscard]] std::string_view paper() const override {
    return "Szepesi et al., Nessie, University of Waterloo CS-2015-09, Figure 1; Mitchell et al., Pilaf, "
           "USENIX ATC 2013, 2.1";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override { return echo_option_specs(); }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& /*options*/) const override {
    return kv::Consistency::none;
  }
  [[nodiscard]] std::string_view unverifiable() const override { return stores_nothing; }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& options) const override {
    return echo_requirements(options);
  }
  [[nodiscard]] std::uint32_t default_servers() const override { return 1; }
  [[nodiscard]] std::map<std::string, std::string> fuzz_options(
      Rng& rng, const kv::DeployConfig& /*shape*/) const override {
    std::map<std::string, std::string> drawn;
    drawn["micro-echo.by"] = rng.chance(0.5) ? "write" : "send";
    drawn["micro-echo.transport"] = rng.chance(0.5) ? "rc" : "uc";
    drawn["micro-echo.give-up"] = "2ms";
    drawn["micro-echo.retry"] = "200us";
    return drawn;
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view /*mutant*/) const override {
    LOCH_ASSIGN(const EchoSettings settings, decide_echo(config, options));
    if (settings.by_write) return std::make_unique<WriteEchoStore>(settings);
    return std::make_unique<SendEchoStore>(settings);
  }
};

class LookupModule final : public kv::Module {
 public:
  [[nodiscard]] std::string_view name() const override { return "micro-cuckoo"; }
  [[nodiscard]] std::string_view summary() const override {
    return "microbenchmark: look-ups in a local hash table, cuckoo or linear probing; no network";
  }
  [[nodiscard]] std::string_view paper() const override {
    return "Mitchell et al., Pilaf, USENIX ATC 2013, 3.4 and Figure 6";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override { return lookup_option_specs(); }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& /*options*/) const override {
    return kv::Consistency::none;
  }
  [[nodiscard]] std::string_view unverifiable() const override { return "looks keys up and stores no value"; }
  [[nodiscard]] std::uint32_t useful_bytes(const kv::DeployConfig& /*config*/) const override { return 0; }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& /*options*/) const override {
    return {};
  }
  // In fuzz runs the table is filled to 30 % only, because the few keys of a fuzz run may not fit into a
  // fuller table.
  [[nodiscard]] std::map<std::string, std::string> fuzz_options(
      Rng& rng, const kv::DeployConfig& /*shape*/) const override {
    return {{"micro-cuckoo.table", rng.chance(0.5) ? "cuckoo" : "linear"}, {"micro-cuckoo.fill", "0.3"}};
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view /*mutant*/) const override {
    LOCH_ASSIGN(const LookupSettings settings, decide_lookup(config, options));
    return std::make_unique<LookupStore>(settings);
  }
};

}  // namespace

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules) {
  for (const Kind kind : {Kind::verbs, Kind::atomic})
    modules.push_back(std::make_unique<TrafficModule>(kind));
  modules.push_back(std::make_unique<EchoModule>());
  modules.push_back(std::make_unique<LookupModule>());
}

}  // namespace loch::micro
