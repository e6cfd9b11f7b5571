// What loch fuzz --mutants and --holes have measured so far, in a file of JSON lines: one for each part of a
// stretch of seeds, so that a measurement that was ended goes on.
#pragma once

#include <string>

#include "app/fuzz/waits.h"
#include "common/base/result.h"

namespace loch::fuzz {

// What was measured: finds of another commit, of other options or from another first seed are others.
struct SightingsKey {
  std::string commit, protocol, variant, settings;
  std::uint64_t first_seed = 1;
  friend auto operator<=>(const SightingsKey&, const SightingsKey&) = default;
};

class SightingsFile {
 public:
  // Reads what is there; a file that does not exist is made when something is added. An empty path: nothing
  // is kept. Errors name the file and the line; a last line that was cut off is dropped.
  [[nodiscard]] static Result<SightingsFile> open(const std::string& path);

  // What the parts so far add up to.
  [[nodiscard]] Sightings of(const SightingsKey& key) const;
  // A further part, which begins behind those before: `part.finds` are counted from its own first seed.
  [[nodiscard]] Result<> add(const SightingsKey& key, const Sightings& part);

 private:
  std::string path_;
  std::map<SightingsKey, Sightings> all_;
};

}  // namespace loch::fuzz
