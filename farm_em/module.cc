// The module of farm-em and farm-em-var.
#include "farm_em/module.h"

#include <array>
#include <utility>

#include "farm_em/store.h"

namespace loch::farm {
namespace {

class FarmModule final : public kv::Module {
 public:
  explicit FarmModule(Form form) : form_(form), prefix_(form == Form::inlined ? "farm-em" : "farm-em-var") {}
  [[nodiscard]] std::string_view name() const override { return prefix_; }
  [[nodiscard]] std::string_view summary() const override {
    return form_ == Form::inlined
               ? "FaRM, emulated: GET by one READ of six buckets, PUT by WRITE and WRITE"
               : "FaRM with values behind pointers, emulated: GET by two READs, PUT by WRITE "
                 "and WRITE";
  }
  [[nodiscard]] std::string_view paper() const override {
    return "Kalia et al., Using RDMA Efficiently for Key-Value Services, SIGCOMM 2014, section 5.1";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override { return option_specs(prefix_); }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& /*options*/) const override {
    return kv::Consistency::none;
  }
  [[nodiscard]] std::string_view unverifiable() const override {
    return "emulates the traffic of a store: its PUTs are answered and store nothing";
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& options) const override {
    // In-order placement is not needed: no WRITE changes a bucket during a run, so that READs of buckets
    // cannot be torn, and numbered PUTs carry a checksum, which shows whether a request is whole.
    return {.rc = true, .uc = !is_over_rc(options), .untorn_bytes = 8, .max_rd_atomic = 1};
  }
  [[nodiscard]] std::string_view departure(const kv::Options& options) const override {
    return is_over_rc(options) ? "over RC" : "";
  }
  [[nodiscard]] std::uint32_t default_servers() const override { return 1; }
  [[nodiscard]] std::map<std::string, kv::Mutant> mutants() const override {
    return {{"executes-repeated", {"a request that comes again is executed again", 6}},
            {"trusts-trailer", {"the last word announces a request whose bytes are not all there", 2}}};
  }
  [[nodiscard]] std::vector<kv::Fix> fixes(const kv::Options& options) const override {
    if (options.boolean(prefix_ + ".numbered-puts")) return {};
    return {{"F1", "nothing tells one PUT from the next: an answer may be another's, or to half a request",
             prefix_ + ".numbered-puts"}};
  }
  [[nodiscard]] std::vector<kv::Hole> holes() const override {
    return {{"F1",
             "nothing tells one PUT from the next: an answer may be another's, or to half a request",
             {{prefix_ + ".numbered-puts", "false"}},
             2}};
  }
  [[nodiscard]] std::map<std::string, std::string> fuzz_options(
      Rng& rng, const kv::DeployConfig& /*shape*/) const override {
    constexpr std::array<const char*, 3> few = {"1", "2", "3"}, spans = {"50us", "200us", "1ms"},
                                         patience = {"300us", "2ms", "50ms"};
    return {{prefix_ + ".lanes", few[rng.below(few.size())]},
            {prefix_ + ".posting-list", few[rng.below(few.size())]},
            {prefix_ + ".signal-every", few[rng.below(few.size())]},
            {prefix_ + ".retry-after", spans[rng.below(spans.size())]},
            {prefix_ + ".patience", patience[rng.below(patience.size())]}};
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view mutant) const override {
    LOCH_ASSIGN(auto settings, decide(form_, config, options, mutant));
    return std::make_unique<FarmStore>(std::move(settings));
  }

 private:
  [[nodiscard]] bool is_over_rc(const kv::Options& options) const {
    return options.choice(prefix_ + ".transport") == "rc";
  }

  Form form_;
  std::string prefix_;
};

}  // namespace

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules) {
  modules.push_back(std::make_unique<FarmModule>(Form::inlined));
  modules.push_back(std::make_unique<FarmModule>(Form::variable));
}

}  // namespace loch::farm
