// Settings of micro-echo, derived from its options.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/fabric.h"
#include "common/kv/protocol.h"

namespace loch::micro {

struct EchoSettings {
  kv::DeployConfig shape;
  bool by_write = true;  // true: messages are WRITEs; false: SENDs
  // true: each window slot (outstanding operation) sends to one server worker only; false: to all of them in
  // rotation
  bool keeps_server = false;
  fabric::Transport transport = fabric::Transport::rc;
  // Bytes of a GET's request and of a PUT's reply. A GET's reply and a PUT's request have the value's size.
  std::uint32_t small_bytes = 8;
  std::uint32_t inline_up_to = 0;
  Nanos retry_after = 0, give_up_after = 0, reconnect_timeout = 0;
};

[[nodiscard]] std::vector<kv::OptionSpec> echo_option_specs();
[[nodiscard]] Result<EchoSettings> decide_echo(const kv::DeployConfig& shape, const kv::Options& options);
[[nodiscard]] fabric::Requirements echo_requirements(const kv::Options& options);

}  // namespace loch::micro
