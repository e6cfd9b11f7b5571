// The folder of a long campaign: corpus.json (docs/formats.md), the scenarios that reached something new in
// scenarios/, and what was found in findings/. Names in it are relative, so that the folder can be moved
// whole. The index is written after what it names and replaced whole, so that an interruption at any instant
// loses no kept scenario that it names.
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
  // Makes the folder where it is not there. Fails (invalid_argument, one line) on a corpus of another
  // version, protocol, mutant, profile or settings, on one that is damaged, and while another campaign has
  // it.
  [[nodiscard]] static Result<std::unique_ptr<Corpus>> open(const FuzzOptions& options,
                                                            const kv::Module& module,
                                                            const kv::Registry& registry);
  ~Corpus();
  Corpus(const Corpus&) = delete;
  Corpus& operator=(const Corpus&) = delete;

  // Marks that the run passed and no kept one had. Several places may share a name; a mark is also how often
  // a probe was passed, to a power of four ("nessie.x", "nessie.x*4", …).
  [[nodiscard]] std::vector<std::string> news_of(const ProbeCounts& probes) const;
  // Keeps the run's scenario for these marks, and writes it.
  [[nodiscard]] Result<> keep(const FuzzFinding& run, const std::vector<std::string>& news);
  // Writes the index.
  [[nodiscard]] Result<> save();

  [[nodiscard]] const std::vector<FuzzScenario>& scenarios() const { return scenarios_; }
  // Probes of the protocol that some run has passed.
  [[nodiscard]] std::size_t probes_reached() const;
  [[nodiscard]] std::string findings_folder() const;

  // How far the campaign has come, over all of its sessions.
  std::uint64_t next_step = 0;  // number of the next scenario: it decides whether a seed or a neighbour
  std::uint64_t runs = 0, findings = 0;

 private:
  struct Entry {
    std::string file;                // below scenarios/
    std::vector<std::string> marks;  // that it was the first to reach
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
  std::vector<FuzzScenario> scenarios_;  // the entries' scenarios
  std::set<std::string> marks_;
};

}  // namespace loch::fuzz
