// The module of newstore: its name, options, requirements and promises.
#include "newstore/module.h"

#include "newstore/store.h"

namespace loch::newstore {
namespace {

class Module final : public kv::Module {
 public:
  [[nodiscard]] std::string_view name() const override { return "newstore"; }
  [[nodiscard]] std::string_view summary() const override {
    return "client-driven: a slot a record, GET by READs, PUT by CAS and WRITE";
  }
  [[nodiscard]] std::string_view paper() const override { return "none: an example to begin from"; }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override {
    return {{.key = "newstore.attempts",
             .type = kv::OptionType::integer,
             .initial = "1000",
             .help = "of one operation at a slot that others change, before it gives up",
             .choices = {},
             .minimum = 1,
             .maximum = 1e9,
             .role = kv::OptionRole::attempts}};
  }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& /*options*/) const override {
    return kv::Consistency::linearizable;
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& /*options*/) const override {
    return {.rc = true, .atomic_scope = fabric::AtomicScope::nic, .untorn_bytes = 8};
  }
  // kv::Module::promise stays at its default, "unavailable": a client that dies while it holds a lock leaves
  // a key that cannot be read or written any more.
  [[nodiscard]] std::map<std::string, kv::Mutant> mutants() const override {
    return {{"no-lock", {"a PUT takes no lock and a GET looks at none, so that values tear", 1}}};
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view mutant) const override {
    Settings settings;
    settings.config = config;
    settings.attempts = static_cast<std::uint32_t>(options.integer("newstore.attempts"));
    settings.has_lock = mutant != "no-lock";
    return std::make_unique<Store>(settings);
  }
};

}  // namespace

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules) {
  modules.push_back(std::make_unique<Module>());
}

}  // namespace loch::newstore
