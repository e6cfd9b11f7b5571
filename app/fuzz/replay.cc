// Reads and writes replay files: a scenario, its settings and its finding.
#include "app/fuzz/replay.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "app/fuzz/scenario_fields.h"

namespace loch::fuzz {
namespace {

constexpr std::string_view replay_format = "loch-replay";
constexpr std::array<std::string_view, 9> verdicts = {"holds",    "violated", "corrupt",   "stuck", "unsound",
                                                      "deadlock", "overtime", "undecided", "error"};

std::unexpected<Error> wrong(const std::string& file, std::string_view text) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", file, text));
}

// Hashes are written in hexadecimal, as the fuzzer prints them.
template <typename A>
void hash(A& a, const char* key, std::uint64_t& value) {
  std::string text = fmt::format("{:016x}", value);
  a.text(key, text);
  if constexpr (A::is_reading) {
    value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (text.size() == 16 && read.ec == std::errc{} && read.ptr == text.data() + text.size()) return;
    a.refuse(key, "16 hexadecimal digits");
  }
}

template <typename A>
void replay_fields(A& a, std::string& format, std::int64_t& version, Replay& r) {
  a.text("format", format);
  a.whole("version", version, 0, 1'000'000);
  a.text("protocol", r.protocol);
  a.text("mutant", r.mutant);
  a.text("hardware", r.hardware);
  a.dictionary("settings", r.settings);
  a.object("shows", [&](A& one) {
    one.choice("verdict", r.verdict, verdicts);
    one.text("reason", r.reason);
    one.text("cause", r.cause);
    one.seed("seed", r.seed);
    one.text("commit", r.commit);
    hash(one, "trace_hash", r.trace_hash);
    hash(one, "history_hash", r.history_hash);
  });
  a.object("scenario", [&](A& one) { fields(one, r.scenario); });
}

}  // namespace

std::string to_text(const Replay& replay) {
  Replay copy = replay;
  std::string format(replay_format);
  std::int64_t version = replay_version;
  nlohmann::ordered_json out;
  FieldWriter writer(out);
  replay_fields(writer, format, version, copy);
  return out.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<Replay> parse_replay(std::string_view text, const std::string& file) {
  LOCH_ASSIGN(const nlohmann::json document, parse_document(text, file));
  // Checks the version first, because a file of another version may have other fields.
  if (!document.is_object() || document.value("format", nlohmann::json()) != replay_format)
    return wrong(file, fmt::format("format: expected \"{}\"", replay_format));
  if (document.value("version", nlohmann::json()) != replay_version)
    return wrong(file, fmt::format("version: expected {}, which this program reads", replay_version));
  Replay replay;
  std::string error, format;
  std::int64_t version = 0;
  {
    FieldReader reader(document, "", error);
    replay_fields(reader, format, version, replay);
  }
  if (!error.empty()) return wrong(file, error);
  if (auto fits = check_scenario(replay.scenario); !fits)
    return wrong(file, "scenario." + fits.error().message);
  return replay;
}

}  // namespace loch::fuzz
