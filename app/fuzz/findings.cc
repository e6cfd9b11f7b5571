// Reports findings, and stores them after shrinking.
#include "app/fuzz/findings.h"

#include <fmt/format.h>

#include <filesystem>

#include "app/fuzz/page.h"
#include "app/fuzz/replay.h"
#include "common/base/output_place.h"
#include "common/base/version.h"
#include "common/check/history.h"

namespace loch::fuzz {

std::string report(const FuzzFinding& f, const FuzzOptions& o) {
  std::string text = fmt::format("seed {}: {}: {}\n", f.seed, name(f.verdict), f.reason);
  if (!f.cause.empty()) text += fmt::format("  cause    {}\n", f.cause);
  text += fmt::format("  scenario {}\n", f.scenario);
  text +=
      fmt::format("  commit   {}{}, trace hash {:016x}, virtual time {:.6f} s, {} events\n", build_commit(),
                  build_is_dirty() ? " (dirty)" : "", f.trace_hash, f.virtual_s, f.events);
  if (!f.sub_history.empty()) text += "  smallest sub-history that contradicts itself:\n";
  for (const check::Operation& operation : f.sub_history)
    text += "    " + check::to_line(check::view(operation));
  text += fmt::format("  rerun    {}\n", rerun_line(f, o));
  if (f.fixed.empty()) return text;
  FuzzOptions fixed = o;
  for (const std::string& option : f.fixed) fixed.settings.emplace_back(option, "true");
  return text + fmt::format("  mended   {}\n", rerun_line(f, fixed));
}

Result<StoredFinding> store_finding(const FuzzFinding& finding, const FuzzOptions& options,
                                    const std::string& folder, const std::string& name) {
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", folder, error.message()));
  const std::filesystem::path base = std::filesystem::path(folder) / name;
  const StoredFinding stored{base.string() + ".replay.json", base.string() + ".html"};
  const Replay replay = make_replay(finding, options);
  LOCH_TRY(write_output(stored.replay, to_text(replay)));
  LOCH_TRY(write_output(stored.page, draw_page(replay, finding)));
  return stored;
}

Result<std::string> shrink_and_store(const FuzzFinding& finding, const FuzzOptions& options,
                                     const std::string& folder, std::string name) {
  if (!finding.ran) return std::string();
  if (name.empty()) name = fmt::format("fuzz-{}-{}", options.protocol, finding.seed);
  std::string text;
  FuzzFinding small = finding;
  if (options.shrink_runs > 0) {
    Shrunk shrunk = shrink(finding, options);
    if (shrunk.reproduced) {
      small = std::move(shrunk.finding);
      text += fmt::format("  smallest {} of {} operations, after {} runs: {}\n", operations_left(*small.ran),
                          shrunk.operations_from, shrunk.runs, small.scenario);
      text += fmt::format("           {}\n", small.reason);
      for (const check::Operation& operation : small.sub_history)
        text += "    " + check::to_line(check::view(operation));
    } else {
      text += "  smallest not sought: a list of its operations does not show it\n";
    }
  }
  LOCH_ASSIGN(const StoredFinding stored, store_finding(small, options, folder, name));
  return text +
         fmt::format("  replay   ./loch fuzz --replay {}\n  drawn    {}\n", stored.replay, stored.page);
}

}  // namespace loch::fuzz
