// Options of micro-echo: their table, and the settings derived from them.
#include "baselines/micro/echo_settings.h"

#include <string>

namespace loch::micro {
namespace {
using fabric::Transport;

Transport transport_of(const std::string& text) {
  if (text == "uc") return Transport::uc;
  return text == "ud" ? Transport::ud : Transport::rc;
}
}  // namespace

std::vector<kv::OptionSpec> echo_option_specs() {
  using kv::OptionType;
  return {
      {"micro-echo.by",
       OptionType::choice,
       "write",
       "requests and replies: WRITEs into polled memory (Nessie 2015, Figure 1), or SENDs (Pilaf 2013, 2.1)",
       {"write", "send"}},
      {"micro-echo.transport",
       OptionType::choice,
       "rc",
       "of both ways; WRITE: rc, uc; SEND: all",
       {"rc", "uc", "ud"}},
      {"micro-echo.server",
       OptionType::choice,
       "turns",
       "whom a client asks: all server workers in turn, or one for ever (its number, modulo their number)",
       {"turns", "one"}},
      {"micro-echo.small",
       OptionType::size,
       "8",
       "payload of a GET's request and a PUT's reply; the other message has --value-size (WRITEs: 24 and 8 "
       "bytes of frame more)",
       {},
       8,
       4096},
      {"micro-echo.inline",
       OptionType::size,
       "256",
       "messages of up to so many bytes are inlined, where the device can",
       {},
       0,
       1024},
      {"micro-echo.retry",
       OptionType::duration,
       "50ms",
       "without a reply: the same request again (WRITE)",
       {},
       1000,
       1e11,
       "1s"},
      {"micro-echo.give-up",
       OptionType::duration,
       "2s",
       "without a reply: the operation has timed out",
       {},
       1000,
       1e11,
       "10s"},
      {"micro-echo.reconnect-timeout",
       OptionType::duration,
       "100ms",
       "to reach a node again after an error",
       {},
       1000,
       1e11},
  };
}

Result<EchoSettings> decide_echo(const kv::DeployConfig& shape, const kv::Options& options) {
  EchoSettings settings;
  settings.shape = shape;
  settings.by_write = options.choice("micro-echo.by") == "write";
  settings.keeps_server = options.choice("micro-echo.server") == "one";
  settings.transport = transport_of(options.choice("micro-echo.transport"));
  settings.small_bytes = static_cast<std::uint32_t>(options.integer("micro-echo.small") + 7) / 8 * 8;
  settings.inline_up_to = static_cast<std::uint32_t>(options.integer("micro-echo.inline"));
  settings.retry_after = options.integer("micro-echo.retry");
  settings.give_up_after = options.integer("micro-echo.give-up");
  settings.reconnect_timeout = options.integer("micro-echo.reconnect-timeout");
  if (shape.server_workers == 0) {
    return fail(ErrorCode::invalid_argument,
                "--servers 0: micro-echo needs somebody who answers: --servers 1 or more");
  }
  if (settings.by_write && settings.transport == Transport::ud) {
    return fail(ErrorCode::invalid_argument,
                "--micro-echo.transport ud: datagrams are SENDs: --micro-echo.by send");
  }
  return settings;
}

fabric::Requirements echo_requirements(const kv::Options& options) {
  fabric::Requirements needs;
  const Transport transport = transport_of(options.choice("micro-echo.transport"));
  needs.rc = transport == Transport::rc;
  needs.uc = transport == Transport::uc;
  needs.ud = transport == Transport::ud;
  const bool sends = options.choice("micro-echo.by") == "send";
  needs.receives_rc = sends && needs.rc;
  needs.receives_uc = sends && needs.uc;
  return needs;
}

}  // namespace loch::micro
