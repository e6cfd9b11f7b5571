// Reads and writes the folder of a long fuzz campaign.
#include "app/fuzz/corpus.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "app/fuzz/campaign.h"
#include "app/fuzz/fields.h"
#include "app/fuzz/replay.h"
#include "common/base/file.h"
#include "common/base/output_place.h"

namespace loch::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view corpus_format = "loch-corpus";
constexpr std::int64_t corpus_version = 1;
constexpr std::size_t most_entries = 100'000;

std::unexpected<Error> wrong(const std::string& file, std::string_view text) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", file, text));
}

// Whether the name denotes a file directly in the corpus's folder, without a path to elsewhere.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() < 100 && name.front() != '.' &&
         std::ranges::all_of(
             name,
             [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; });
}

std::map<std::string, std::string> settings_of(const FuzzOptions& options) {
  std::map<std::string, std::string> all;
  for (const auto& [key, value] : options.settings) all[key] = value;
  return all;
}

}  // namespace

template <typename A>
void Corpus::index_fields(A& a, std::string& format, std::int64_t& version) {
  constexpr std::int64_t most = std::int64_t{1} << 60;
  a.text("format", format);
  a.whole("version", version, 0, 1'000'000);
  a.text("protocol", protocol_);
  a.text("mutant", mutant_);
  a.text("hardware", hardware_);
  a.dictionary("settings", settings_);
  a.whole("next_step", next_step, 0, most);
  a.whole("runs", runs, 0, most);
  a.whole("findings", findings, 0, most);
  a.list("scenarios", entries_, most_entries, [](A& one, Entry& entry) {
    one.text("file", entry.file);
    one.texts("reached", entry.marks, 10'000);
  });
}

Result<std::unique_ptr<Corpus>> Corpus::open(const FuzzOptions& options, const kv::Module& module,
                                             const kv::Registry& registry) {
  std::unique_ptr<Corpus> corpus(new Corpus(options, module));
  std::error_code error;
  fs::create_directories(fs::path(options.corpus) / "scenarios", error);
  if (error) return wrong(options.corpus, error.message());
  LOCH_TRY(corpus->lock());
  if (fs::exists(fs::path(options.corpus) / "corpus.json")) {
    LOCH_TRY(corpus->read(registry));
  } else {
    corpus->protocol_ = options.protocol;
    corpus->mutant_ = options.mutant;
    corpus->hardware_ = options.hardware;
    corpus->settings_ = settings_of(options);
    LOCH_TRY(corpus->save());
  }
  return corpus;
}

Corpus::~Corpus() {
  if (lock_ >= 0) ::close(lock_);
}

Result<> Corpus::lock() {
  const std::string path = (fs::path(options_.corpus) / "lock").string();
  lock_ = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (lock_ < 0) return wrong(path, std::error_code(errno, std::generic_category()).message());
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) return wrong(options_.corpus, "another campaign is using it");
  return {};
}

Result<> Corpus::check_same(const std::string& file) const {
  if (protocol_ != options_.protocol)
    return wrong(file, fmt::format("protocol: the corpus is of {}, not of {}", protocol_, options_.protocol));
  if (mutant_ != options_.mutant)
    return wrong(file,
                 fmt::format("mutant: the corpus is of \"{}\", not of \"{}\"", mutant_, options_.mutant));
  if (hardware_ != options_.hardware)
    return wrong(file, fmt::format("hardware: the corpus is of {}, not of {}", hardware_, options_.hardware));
  if (settings_ != settings_of(options_))
    return wrong(file, "settings: the corpus was made with another --set");
  return {};
}

Result<> Corpus::read(const kv::Registry& registry) {
  const fs::path folder(options_.corpus);
  const std::string file = (folder / "corpus.json").string();
  LOCH_ASSIGN(const std::string text, read_whole(file, std::uint64_t{1} << 28));
  LOCH_ASSIGN(const nlohmann::json document, parse_document(text, file));
  if (!document.is_object() || document.value("format", nlohmann::json()) != corpus_format)
    return wrong(file, fmt::format("format: expected \"{}\"", corpus_format));
  if (document.value("version", nlohmann::json()) != corpus_version)
    return wrong(file, fmt::format("version: expected {}, which this program reads", corpus_version));
  std::string error, format;
  std::int64_t version = 0;
  {
    FieldReader reader(document, "", error);
    index_fields(reader, format, version);
  }
  if (!error.empty()) return wrong(file, error);
  LOCH_TRY(check_same(file));
  for (const Entry& entry : entries_) {
    if (!is_plain_name(entry.file)) return wrong(file, "scenarios: expected plain file names");
    const std::string path = (folder / "scenarios" / entry.file).string();
    LOCH_ASSIGN(Replay replay, read_replay(path));
    LOCH_TRY(make_runnable(replay, registry, path));
    if (replay.protocol != protocol_) return wrong(path, fmt::format("protocol: expected {}", protocol_));
    scenarios_.push_back(std::move(replay.scenario));
    marks_.insert(entry.marks.begin(), entry.marks.end());
  }
  return {};
}

std::vector<std::string> Corpus::news_of(const ProbeCounts& probes) const {
  std::vector<std::string> news;
  const std::span<const ProbeSite> sites = probe_sites();
  for (std::size_t i = 0; i < probes.size(); ++i) {
    if (probes[i] == 0 || !is_probe_of(module_, sites[i].name)) continue;
    for (std::uint32_t times = 1; times <= probes[i] && times <= 256; times *= 4) {
      std::string mark = times == 1 ? sites[i].name : fmt::format("{}*{}", sites[i].name, times);
      if (!marks_.contains(mark)) news.push_back(std::move(mark));
    }
  }
  return news;
}

Result<> Corpus::keep(const FuzzFinding& run, const std::vector<std::string>& news) {
  const Entry entry{fmt::format("s{:06}-{:016x}.replay.json", entries_.size(), run.trace_hash), news};
  const std::string path = (fs::path(options_.corpus) / "scenarios" / entry.file).string();
  LOCH_TRY(write_output(path, to_text(make_replay(run, options_))));
  entries_.push_back(entry);
  scenarios_.push_back(*run.ran);
  marks_.insert(news.begin(), news.end());
  return save();
}

Result<> Corpus::save() {
  std::string format(corpus_format);
  std::int64_t version = corpus_version;
  nlohmann::ordered_json out;
  FieldWriter writer(out);
  index_fields(writer, format, version);
  return write_output((fs::path(options_.corpus) / "corpus.json").string(), out.dump(1) + "\n");
}

std::size_t Corpus::probes_reached() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      marks_, [](const std::string& mark) { return mark.find('*') == std::string::npos; }));
}

std::string Corpus::findings_folder() const { return (fs::path(options_.corpus) / "findings").string(); }

}  // namespace loch::fuzz
