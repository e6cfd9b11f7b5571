// Reads and writes the lines of a results file, one for each part of a measurement, and combines the parts of
// a measurement into one result.
#include "app/fuzz/sightings.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace loch::fuzz {
namespace {

constexpr int version = 1;
using Json = nlohmann::ordered_json;

Json to_json(const SightingsKey& key, const Sightings& part) {
  Json line = {{"version", version},     {"commit", key.commit},     {"protocol", key.protocol},
               {"variant", key.variant}, {"settings", key.settings}, {"first_seed", key.first_seed},
               {"seeds", part.seeds},    {"finds", part.finds},      {"by", part.by},
               {"errors", part.errors}};
  return line;
}

void append(Sightings& all, const Sightings& part) {
  for (const std::uint64_t find : part.finds) all.finds.push_back(all.seeds + find);
  for (const auto& [by, count] : part.by) all.by[by] += count;
  all.seeds += part.seeds;
  all.errors += part.errors;
}

bool is_ascending_within(const Sightings& part) {
  std::uint64_t before = 0;
  for (const std::uint64_t find : part.finds) {
    if (find <= before || find > part.seeds) return false;
    before = find;
  }
  return true;
}

}  // namespace

Result<SightingsFile> SightingsFile::open(const std::string& path) {
  SightingsFile file;
  file.path_ = path;
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return file;
  if (!std::filesystem::is_regular_file(path, error))
    return fail(ErrorCode::invalid_argument, fmt::format("--results: {} is not a file", path));
  std::ifstream in(path, std::ios::binary);
  std::ostringstream whole;
  whole << in.rdbuf();
  std::string text = whole.str();
  if (!in) return fail(ErrorCode::invalid_argument, fmt::format("--results: {} cannot be read", path));
  const std::size_t kept = text.rfind('\n') + 1;  // no newline: npos + 1 is 0, and the whole text is dropped
  if (kept != text.size()) {
    text.resize(kept);
    std::filesystem::resize_file(path, kept, error);
    if (error)
      return fail(ErrorCode::invalid_argument, fmt::format("--results: {}: {}", path, error.message()));
  }
  std::istringstream lines(text);
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    try {
      const Json read = Json::parse(line);
      if (read.at("version").get<int>() != version)
        return fail(
            ErrorCode::invalid_argument,
            fmt::format("--results: {}:{}: not of version {}; begin another file", path, number, version));
      const SightingsKey key{read.at("commit"), read.at("protocol"), read.at("variant"), read.at("settings"),
                             read.at("first_seed")};
      const Sightings part{read.at("seeds"), read.at("finds"), read.at("by"), read.at("errors")};
      if (!is_ascending_within(part))
        return fail(
            ErrorCode::invalid_argument,
            fmt::format("--results: {}:{}: \"finds\" are not ascending from 1 to \"seeds\"", path, number));
      append(file.all_[key], part);
    } catch (const Json::exception&) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--results: {}:{}: expected a line of loch fuzz --mutants", path, number));
    }
  }
  return file;
}

Sightings SightingsFile::of(const SightingsKey& key) const {
  const auto found = all_.find(key);
  return found == all_.end() ? Sightings{} : found->second;
}

Result<> SightingsFile::add(const SightingsKey& key, const Sightings& part) {
  append(all_[key], part);
  if (path_.empty()) return {};
  std::ofstream out(path_, std::ios::binary | std::ios::app);
  out << to_json(key, part).dump() << '\n';
  out.flush();
  if (!out) return fail(ErrorCode::invalid_argument, fmt::format("--results: {} cannot be written", path_));
  return {};
}

}  // namespace loch::fuzz
