// Parses the text of a scenario.
#include "app/explore/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace loch::explore {
namespace {

constexpr std::array<std::pair<std::string_view, Verb>, 6> verbs = {{{"GET", Verb::get},
                                                                     {"PUT", Verb::put},
                                                                     {"DELETE", Verb::remove},
                                                                     {"MIGRATE", Verb::migrate},
                                                                     {"SCRUB", Verb::scrub},
                                                                     {"INSERT", Verb::insert}}};
constexpr std::size_t most_clients = 8;
constexpr std::uint32_t most_operations = 32;
// Bound on the operations of a run, including three for each key at the run's end. It is 64 because a set of
// operations is stored as a 64-bit mask.
constexpr std::uint32_t most_with_last = 64;

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t from = 0;;) {
    const std::size_t to = text.find(at, from);
    parts.push_back(trim(text.substr(from, to == std::string_view::npos ? to : to - from)));
    if (to == std::string_view::npos) return parts;
    from = to + 1;
  }
}

bool is_key(std::string_view text) {
  return !text.empty() && text.size() <= 8 && std::isalpha(static_cast<unsigned char>(text.front())) != 0 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0; });
}

std::unexpected<Error> refuse(std::string message) {
  return fail(ErrorCode::invalid_argument, std::move(message));
}

Result<Step> parse_step(std::string_view text, Scenario& scenario) {
  const std::size_t space = std::min(text.find_first_of(" \t"), text.size());
  const std::string_view word = text.substr(0, space), key = trim(text.substr(space));
  const auto verb = std::ranges::find(verbs, word, &std::pair<std::string_view, Verb>::first);
  if (verb == verbs.end()) {
    return refuse(fmt::format(
        "scenario: \"{}\" is no operation; expected GET, PUT, DELETE, INSERT or MIGRATE and a key, as in "
        "\"DELETE K | PUT K; GET K\", or SCRUB",
        text));
  }
  if (verb->second == Verb::scrub) {
    if (!key.empty()) return refuse(fmt::format("scenario: \"{}\": expected SCRUB without a key", text));
    return Step{verb->second, 0};
  }
  if (!is_key(key)) {
    return refuse(fmt::format(
        "scenario: \"{}\": expected a key behind {}, a letter with letters or digits behind it: K, K2, L",
        text, word));
  }
  auto known = std::ranges::find(scenario.keys, key);
  if (known == scenario.keys.end()) known = scenario.keys.insert(scenario.keys.end(), std::string(key));
  return Step{verb->second, static_cast<std::uint32_t>(known - scenario.keys.begin())};
}

}  // namespace

std::string_view name(Verb verb) {
  return std::ranges::find(verbs, verb, &std::pair<std::string_view, Verb>::second)->first;
}

std::uint32_t Scenario::operations() const {
  std::uint32_t all = 0;
  for (const auto& client : clients) all += static_cast<std::uint32_t>(client.size());
  return all;
}

std::string Scenario::describe(const Step& step) const {
  if (step.verb == Verb::scrub) return std::string(name(step.verb));
  return fmt::format("{} {}", name(step.verb), keys[step.key]);
}

namespace {

Result<> check_size(const Scenario& scenario) {
  const auto keys = static_cast<std::uint32_t>(scenario.keys.size());
  if (scenario.operations() > most_operations) {
    return refuse(
        fmt::format("scenario: {} operations; expected at most {}", scenario.operations(), most_operations));
  }
  if (scenario.operations() + 3 * keys > most_with_last) {
    return refuse(fmt::format(
        "scenario: {} operations and {} keys; expected at most {} operations with three for each key",
        scenario.operations(), keys, most_with_last));
  }
  return {};
}

}  // namespace

Result<> prepare(Scenario& scenario, std::string_view before) {
  std::vector<Step> steps;
  for (const std::string_view operation : split(before, ';')) {
    LOCH_ASSIGN(const Step step, parse_step(operation, scenario));
    steps.push_back(step);
  }
  scenario.prepared = static_cast<std::uint32_t>(steps.size());
  scenario.clients[0].insert(scenario.clients[0].begin(), steps.begin(), steps.end());
  return check_size(scenario);
}

Result<Scenario> parse_scenario(std::string_view text, std::string_view keys) {
  Scenario scenario;
  for (const std::string_view key : split(keys, ' ')) {
    if (key.empty()) continue;
    if (!is_key(key) || std::ranges::find(scenario.keys, key) != scenario.keys.end()) {
      return refuse(fmt::format(
          "keys: \"{}\": expected names, each once, of a letter with letters or digits behind it: \"K K2 L\"",
          key));
    }
    scenario.keys.emplace_back(key);
  }
  for (const std::string_view client : split(text, '|')) {
    auto& steps = scenario.clients.emplace_back();
    for (const std::string_view operation : split(client, ';')) {
      LOCH_ASSIGN(const Step step, parse_step(operation, scenario));
      steps.push_back(step);
    }
  }
  if (scenario.clients.size() > most_clients) {
    return refuse(
        fmt::format("scenario: {} clients; expected at most {}", scenario.clients.size(), most_clients));
  }
  LOCH_TRY(check_size(scenario));
  return scenario;
}

}  // namespace loch::explore
