// The module of HERD: requirements of its layouts, options, mutants and holes (known faults).
#include "herd_em/module.h"

#include <utility>

#include "herd_em/store.h"

namespace loch::herd {
namespace {

bool is_over_rc(const kv::Options& options) { return options.choice("herd.transport") == "rc"; }

class HerdModule final : public kv::Module {
 public:
  [[nodiscard]] std::string_view name() const override { return "herd"; }
  [[nodiscard]] std::string_view summary() const override {
    return "requests by UC WRITE into slots that server workers poll, replies by UD SEND; a lossy cache";
  }
  [[nodiscard]] std::string_view paper() const override {
    return "Kalia et al., Using RDMA Efficiently for Key-Value Services, SIGCOMM 2014, and Design Guidelines "
           "for "
           "High Performance RDMA Systems, USENIX ATC 2016";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override { return option_specs(); }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& options) const override {
    return options.choice("herd.mode") == "store" ? kv::Consistency::linearizable
                                                  : kv::Consistency::lossy_cache;
  }
  // INSERT is supported by the fixed variant only: published requests have no code for it (a request of 2014
  // has no operation code at all, only a length).
  [[nodiscard]] kv::DataSupport data(const kv::Options& options) const override {
    kv::DataSupport all;
    if (options.choice("herd.variant") != "published")
      all.insert_if_absent = {.is_there = true, .how = "by the server worker that owns the key"};
    else
      all.insert_if_absent.how = "its published requests have no code for it";
    return all;
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& options) const override {
    // The published server accepts a request as soon as the flag in it has arrived (known fault Q5,
    // docs/protocols/herd.md: it may take an incomplete request). In the 2016 layout the flag is the opcode,
    // which lies before the value, so the fabric has to place whole cache lines; in the 2014 layout the flag
    // is last, so the fabric has to place bytes in order.
    const bool trusts_flag =
        options.choice("herd.variant") == "published" && !options.boolean("herd.mend-q5");
    const bool needs_line =
        trusts_flag && options.choice("herd.layout") == "2016" && !options.boolean("herd.mend-q1");
    const bool is_rc = is_over_rc(options);
    return {.rc = is_rc,
            .uc = !is_rc,
            .ud = true,
            .untorn_bytes = needs_line ? SlotFormat::line : 8,
            .in_order_placement = trusts_flag && !needs_line,
            .ud_lanes = static_cast<std::uint32_t>(options.integer("herd.ud-qps"))};
  }
  [[nodiscard]] std::string_view departure(const kv::Options& options) const override {
    return is_over_rc(options) ? "over RC" : "";
  }
  // Says after which failures keys can be read and written again, and when. No partition has a replica, no
  // worker serves another's partition, and clients cannot learn that a node has restarted, because UD and UC
  // have no connection that breaks.
  [[nodiscard]] kv::Promise promise(kv::Loss loss, const kv::Options& /*options*/) const override {
    const bool is_borne = loss == kv::Loss::client_killed || loss == kv::Loss::link_down;
    return is_borne ? kv::Promise::serves : kv::Promise::unavailable;
  }
  [[nodiscard]] std::uint32_t default_servers() const override { return 1; }
  [[nodiscard]] std::map<std::string, kv::Mutant> mutants() const override { return herd::mutants(); }
  [[nodiscard]] std::vector<kv::Fix> fixes(const kv::Options& options) const override {
    return open_holes(options);
  }
  [[nodiscard]] std::vector<kv::Hole> holes() const override { return single_holes(); }
  [[nodiscard]] std::map<std::string, std::string> fuzz_options(
      Rng& rng, const kv::DeployConfig& shape) const override {
    return draw_options(rng, shape);
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view mutant) const override {
    LOCH_ASSIGN(Settings settings, decide(config, options, mutant));
    return std::make_unique<HerdStore>(std::move(settings));
  }
};

}  // namespace

std::unique_ptr<kv::Module> make_module() { return std::make_unique<HerdModule>(); }

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules) { modules.push_back(make_module()); }

}  // namespace loch::herd
