// Results of loch fuzz --mutants and --holes in a JSON-lines file, one line for each part of the consecutive
// seeds, so that an interrupted measurement can continue.
#pragma once

#include <string>

#include "app/fuzz/waits.h"
#include "common/base/result.h"

namespace loch::fuzz {

// Identifies a measurement: results of another commit, other options or another first seed do not count for
// it.
struct SightingsKey {
  std::string commit, protocol, variant, settings;
  std::uint64_t first_seed = 1;
  friend auto operator<=>(const SightingsKey&, const SightingsKey&) = default;
};

class SightingsFile {
 public:
  // Opens a results file; if it does not exist, the first add() makes it. With an empty path nothing is
  // stored. Errors name the file and the line; an incomplete last line is dropped.
  [[nodiscard]] static Result<SightingsFile> open(const std::string& path);

  // The sum of this measurement's stored parts.
  [[nodiscard]] Sightings of(const SightingsKey& key) const;
  // Appends a part that follows those stored before; `part.finds` are counted from the part's own first seed.
  [[nodiscard]] Result<> add(const SightingsKey& key, const Sightings& part);

 private:
  std::string path_;
  std::map<SightingsKey, Sightings> all_;
};

}  // namespace loch::fuzz
