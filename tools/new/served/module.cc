// The module of newstore: its name, options, requirements and promises.
#include "newstore/module.h"

#include <fmt/format.h>

#include "newstore/messages.h"
#include "newstore/store.h"

namespace loch::newstore {
namespace {

class Module final : public kv::Module {
 public:
  [[nodiscard]] std::string_view name() const override { return "newstore"; }
  [[nodiscard]] std::string_view summary() const override { return shard_summary; }
  [[nodiscard]] std::string_view paper() const override { return "none: an example to begin from"; }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override {
    const auto duration = [](const char* key, const char* initial, const char* help, kv::OptionRole role) {
      return kv::OptionSpec{.key = key,
                            .type = kv::OptionType::duration,
                            .initial = initial,
                            .help = help,
                            .choices = {},
                            .minimum = 1e3,
                            .maximum = 1e12,
                            .role = role};
    };
    std::vector<kv::OptionSpec> all = {
        duration("newstore.retry-after", "5ms", "a request without a reply is sent again after this long",
                 kv::OptionRole::reply_timeout),
        duration("newstore.give-up-after", "500ms", "and given up after this long", kv::OptionRole::give_up),
        duration("newstore.reconnect-timeout", "50ms", "for one attempt to reach a server again",
                 kv::OptionRole::reconnect_timeout)};
    add_shard_options(all);
    return all;
  }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& /*options*/) const override {
    return kv::Consistency::linearizable;
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& /*options*/) const override {
    return {.rc = true, .untorn_bytes = 8};
  }
  [[nodiscard]] std::uint32_t default_servers() const override { return 2; }
  [[nodiscard]] kv::Promise promise(kv::Loss loss, const kv::Options& /*options*/) const override {
    // Killed clients and broken links lose no data, because clients hold none; a shard has no replica.
    const bool is_kept = loss == kv::Loss::client_killed || loss == kv::Loss::link_down;
    return is_kept ? kv::Promise::serves : kv::Promise::unavailable;
  }
  [[nodiscard]] std::vector<std::string> probes() const override { return {"newstore.", "rpc.write."}; }
  [[nodiscard]] std::map<std::string, kv::Mutant> mutants() const override {
    std::map<std::string, kv::Mutant> all = {
        {"no-duplicate-detection", {"a request that comes twice is executed twice", 3}}};
    add_shard_mutants(all);
    return all;
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view mutant) const override {
    if (config.server_workers == 0)
      return fail(ErrorCode::invalid_argument, "--servers 0: newstore needs a server worker on each node");
    const Messages messages(config);
    Settings settings{.config = config, .channel = {}, .shard = shard_shape(config, options, mutant)};
    rpc::ChannelConfig& channel = settings.channel;
    channel.name = "newstore";
    channel.parties = {.nodes = config.nodes,
                       .servers = config.server_workers,
                       .clients = config.client_workers,
                       .window = config.window,
                       .server_nodes = config.server_nodes};
    channel.request = rpc::SlotShape(messages.request(Ask::put), messages.value, messages.kept);
    channel.reply = rpc::SlotShape(messages.reply(Say::value), messages.value, messages.kept);
    channel.request_bytes = messages.requests();
    channel.reply_bytes = messages.replies();
    channel.retry_after = options.integer("newstore.retry-after");
    channel.give_up_after = options.integer("newstore.give-up-after");
    channel.reconnect_timeout = options.integer("newstore.reconnect-timeout");
    channel.flaws.executes_repeated = mutant == "no-duplicate-detection";
    return std::make_unique<Store>(std::move(settings));
  }
};

}  // namespace

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules) {
  modules.push_back(std::make_unique<Module>());
}

}  // namespace loch::newstore
