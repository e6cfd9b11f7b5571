// The folder of a long fuzz campaign: corpus.json (docs/formats.md), scenarios/ with the scenarios that were
// the first to reach some probe (mark of a rare branch in the code), and findings/. The index corpus.json
// names files relative to the folder, so that the folder can be moved. The index is replaced as a whole after
// the files that it names are written, so that an interruption at any instant loses no scenario.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

class Corpus {
 public:
  // Opens the folder, making it if needed. Fails (invalid_argument, one line) if the corpus belongs to
  // another version, protocol, mutant, hardware profile or settings, is damaged, or is in use by another
  // campaign.
  [[nodiscard]] static Result<std::unique_ptr<Corpus>> open(const FuzzOptions& options,
                                                            const kv::Module& module,
                                                            const kv::Registry& registry);
  ~Corpus();
  Corpus(const Corpus&) = delete;
  Corpus& operator=(const Corpus&) = delete;

  // The marks that this run reached and no kept scenario has. A mark is a probe's name, with the number of
  // its passes rounded down to a power of four ("nessie.x", "nessie.x*4", …).
  [[nodiscard]] std::vector<std::string> news_of(const ProbeCounts& probes) const;
  // Writes the run's scenario to the folder, and notes that it was the first to reach the marks (probes with
  // their rounded counts) in `news`.
  [[nodiscard]] Result<> keep(const FuzzFinding& run, const std::vector<std::string>& news);
  // Writes the file corpus.json anew.
  [[nodiscard]] Result<> save();

  [[nodiscard]] const std::vector<FuzzScenario>& scenarios() const { return scenarios_; }
  // Number of the protocol's probes (marks of rare branches) that some run has passed.
  [[nodiscard]] std::size_t probes_reached() const;
  [[nodiscard]] std::string findings_folder() const;

  // Progress of the campaign over all its sessions.
  std::uint64_t next_step = 0;
  std::uint64_t runs = 0, findings = 0;

 private:
  struct Entry {
    std::string file;  // file name in scenarios/
    // marks (probes with their rounded counts) that this scenario was the first to reach
    std::vector<std::string> marks;
  };
  Corpus(const FuzzOptions& options, const kv::Module& module) : options_(options), module_(module) {}
  template <typename A>
  void index_fields(A& a, std::string& format, std::int64_t& version);
  [[nodiscard]] Result<> lock();
  [[nodiscard]] Result<> read(const kv::Registry& registry);
  [[nodiscard]] Result<> check_same(const std::string& file) const;

  const FuzzOptions& options_;
  const kv::Module& module_;
  int lock_ = -1;
  std::string protocol_, mutant_, hardware_;
  std::map<std::string, std::string> settings_;
  std::vector<Entry> entries_;
  std::vector<FuzzScenario> scenarios_;  // scenarios in the order of entries_
  std::set<std::string> marks_;
};

}  // namespace loch::fuzz
