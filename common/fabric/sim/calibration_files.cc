// Calibration rows from tables of published measurements (experiments/hardware/data): simulates the benchmark
// of each row that is meant for calibration, and puts the measured beside the simulated rate.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "common/fabric/sim/calibrate.h"
#include "common/fabric/sim/microbenchmark.h"

namespace loch::fabric::sim {
namespace {

// One row of a table of measurements: the benchmark's parameters and its measured rate in millions of
// requests a second.
struct RoundsRow {
  std::string figure, series, verb;
  std::uint32_t threads = 0, depth = 0, bytes = 0;
  double mops = 0;
};

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == ',')
      fields.emplace_back();
    else if (c != '\r')
      fields.back() += c;
  }
  return fields;
}

template <typename Number>
std::optional<Number> number(const std::string& text, Number least, Number most) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= least && value <= most))
    return std::nullopt;
  return value;
}

// Parses one row of a table of measurements, given as its fields by column name; an error names the column.
Result<RoundsRow> row_of(const std::map<std::string, std::string>& fields) {
  const auto bad = [&](const char* column) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: not {}", column, fields.at(column)));
  };
  RoundsRow row{.figure = fields.at("figure"), .series = fields.at("series"), .verb = fields.at("verb")};
  if (row.verb != "read" && row.verb != "write") return bad("verb");
  if (row.series != "per_thread_qp" && row.series != "per_thread_doorbell") return bad("series");
  for (const auto& [column, place] : {std::pair{"threads", &row.threads}, std::pair{"depth", &row.depth},
                                      std::pair{"block_bytes", &row.bytes}}) {
    const auto value = number<std::uint32_t>(fields.at(column), 1, 4096);
    if (!value) return bad(column);
    *place = *value;
  }
  const auto mops = number<double>(fields.at("mops"), 1e-6, 1e6);
  if (!mops) return bad("mops");
  row.mops = *mops;
  return row;
}

// The benchmark in which threads of one node post to another node: each posts `depth` requests one by one,
// waits for all of them, and begins again.
Microbenchmark rounds_of_threads(Verb verb, std::uint32_t threads, std::uint32_t depth, std::uint32_t bytes,
                                 DoorbellSharing doorbells) {
  Microbenchmark b;
  b.traffic.verb = verb;
  b.traffic.bytes = bytes;
  b.is_outbound = b.in_rounds = true;
  b.peers = 1;
  b.workers = threads;
  b.window = depth;
  b.doorbells = doorbells;
  b.warm_up = 60'000;
  b.duration = 240'000;
  return b;
}

}  // namespace

Result<> add_rows_of_file(const HardwareProfile& profile, const std::string& name, const std::string& file,
                          CalibrationTable* table) {
  using Shape = std::tuple<std::string, std::string, std::uint32_t, std::uint32_t, std::uint32_t>;
  const std::string path = (profiles_folder() / "data" / file).string();
  std::ifstream in(path);
  const auto bad = [&path](std::size_t line, const std::string& what) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}:{}: {}", path, line, what));
  };
  std::string line;
  if (!std::getline(in, line)) return bad(1, "cannot be read");
  const std::vector<std::string> columns = split(line);
  for (const char* needed : {"figure", "series", "verb", "threads", "depth", "block_bytes", "mops", "role"}) {
    if (std::ranges::find(columns, needed) == columns.end())
      return bad(1, fmt::format("a column {} is missing", needed));
  }
  // rates of the benchmarks that have run, since several rows of the table may be of one benchmark
  std::map<Shape, double> obtained;
  for (std::size_t at = 2; std::getline(in, line); ++at) {
    const std::vector<std::string> values = split(line);
    if (values.size() != columns.size()) return bad(at, "not as many fields as the header");
    std::map<std::string, std::string> fields;
    for (std::size_t i = 0; i < columns.size(); ++i) fields[columns[i]] = values[i];
    if (fields["role"] != "calibrate") continue;
    const auto row = row_of(fields);
    if (!row) return bad(at, row.error().message);
    const bool is_own = row->series == "per_thread_doorbell";
    const auto [place, is_new] =
        obtained.try_emplace({row->series, row->verb, row->threads, row->depth, row->bytes}, 0);
    if (is_new) {
      const Microbenchmark b =
          rounds_of_threads(row->verb == "read" ? Verb::read : Verb::write, row->threads, row->depth,
                            row->bytes, is_own ? DoorbellSharing::own : DoorbellSharing::shared);
      LOCH_ASSIGN(const Measured measured, measure(profile, b));
      place->second = measured.mops;
    }
    table->push_back({.id = "",
                      .hardware = profile.name,
                      .what = fmt::format("{} {}: {} {} B, {} threads, depth {}, {}", name, row->figure,
                                          row->verb == "read" ? "READ" : "WRITE", row->bytes, row->threads,
                                          row->depth, is_own ? "own" : "shared"),
                      .unit = "M/s",
                      .published = row->mops,
                      .obtained = place->second});
  }
  return {};
}

}  // namespace loch::fabric::sim
