// Results of loch fuzz --mutants and --holes in a JSON-lines file. The seeds of a measurement are run in
// parts, and each part has a line of its own, so that an interrupted measurement can continue after the last
// part.
#pragma once

#include <string>

#include "app/fuzz/waits.h"
#include "common/base/result.h"

namespace loch::fuzz {

// Identifies a measurement; results of another commit, of other options or from another first seed belong to
// another measurement.
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

  // The results of all stored parts of the measurement `key`, combined.
  [[nodiscard]] Sightings of(const SightingsKey& key) const;
  // Appends one part of the measurement `key`, whose seeds follow those of the stored parts. The numbers in
  // part.finds are counted from the part's first seed.
  [[nodiscard]] Result<> add(const SightingsKey& key, const Sightings& part);

 private:
  std::string path_;
  std::map<SightingsKey, Sightings> all_;
};

}  // namespace loch::fuzz
