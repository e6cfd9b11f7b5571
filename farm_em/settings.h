// Settings of a FaRM-em deployment, derived from its options.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/cuckoo/hash_family.h"
#include "common/kv/protocol.h"
#include "common/rpc/posting.h"
#include "farm_em/layout.h"

namespace loch::farm {

enum class Puts : std::uint8_t { numbered, published };
enum class Fault : std::uint8_t { none, executes_repeated, trusts_trailer };

struct Settings {
  kv::DeployConfig config;
  std::string prefix;  // prefix of option and region names: "farm-em" or "farm-em-var"
  Layout layout;
  cuckoo::HashFamily family;  // has one hash function, which gives a key's home bucket
  rpc::PostingShape posting;
  Puts puts = Puts::numbered;
  fabric::Transport transport = fabric::Transport::uc;  // transport of numbered PUTs and their replies
  Nanos retry_after = 0, patience = 0;
  Fault fault = Fault::none;

  [[nodiscard]] std::string region(const char* what) const { return prefix + "." + what; }
  [[nodiscard]] std::uint64_t slots_per_node() const { return family.shape().slots_per_node; }
  // Bytes of a node's index. Five more buckets follow the last home bucket, because a key may lie in its home
  // bucket or in any of the next five.
  [[nodiscard]] std::uint64_t index_bytes() const {
    return (slots_per_node() + neighbourhood - 1) * layout.bucket_bytes();
  }
  [[nodiscard]] std::uint64_t values_per_node() const { return slots_per_node() + neighbourhood - 1; }
  [[nodiscard]] std::uint32_t lanes() const { return config.client_workers * config.window; }
};

[[nodiscard]] std::vector<kv::OptionSpec> option_specs(const std::string& prefix);
// Derives the settings from the options. An impossible combination is an error of one line that names the
// option.
[[nodiscard]] Result<std::unique_ptr<const Settings>> decide(Form form, const kv::DeployConfig& config,
                                                             const kv::Options& options,
                                                             std::string_view mutant);

}  // namespace loch::farm
