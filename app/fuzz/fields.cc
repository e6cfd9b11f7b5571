// Reads the fields of JSON objects, and refuses missing, unknown and malformed ones.
#include "app/fuzz/fields.h"

#include <algorithm>
#include <cmath>

namespace loch::fuzz {
namespace {

using nlohmann::json;

constexpr std::size_t deepest = 12, longest_text = 4'000;

bool is_plain(const std::string& text) {
  return text.size() <= longest_text &&
         std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

}  // namespace

FieldReader::FieldReader(const json& in, std::string where, std::string& error)
    : in_(in), where_(std::move(where)), error_(error) {
  if (!in_.is_object()) complain("", "an object {…}");
  if (!where_.empty()) where_ += '.';
}

FieldReader::~FieldReader() {
  if (!error_.empty()) return;
  for (const auto& [key, value] : in_.items()) {
    if (read_.contains(key)) continue;
    complain(is_plain(key) && key.size() < 64 ? key : std::string("(an odd key)"), "no such key");
    return;
  }
}

void FieldReader::complain(const std::string& key, std::string_view expected) {
  if (!error_.empty()) return;
  const std::string place = where_ + key;
  error_ = fmt::format("{}: expected {}", place.empty() ? "the document" : place, expected);
}

const json* FieldReader::find(const char* key) {
  if (!error_.empty()) return nullptr;
  read_.insert(key);
  const auto found = in_.find(key);
  if (found == in_.end()) {
    error_ = fmt::format("{}{}: is missing", where_, key);
    return nullptr;
  }
  return &*found;
}

const json* FieldReader::array(const char* key, std::size_t most) {
  const json* found = find(key);
  if (found == nullptr || (found->is_array() && found->size() <= most)) return found;
  complain(key, fmt::format("a list of at most {}", most));
  return nullptr;
}

std::optional<std::int64_t> FieldReader::integer(const json* found, const std::string& key,
                                                 std::int64_t least, std::int64_t most) {
  if (found == nullptr) return std::nullopt;
  // Refuses unsigned numbers above 2^62: as signed numbers, those from 2^63 on would be negative.
  const bool is_large = found->is_number_unsigned() && found->get<std::uint64_t>() > std::uint64_t{1} << 62;
  if (found->is_number_integer() && !is_large) {
    const auto number = found->get<std::int64_t>();
    if (number >= least && number <= most) return number;
  }
  complain(key, fmt::format("a whole number from {} to {}", least, most));
  return std::nullopt;
}

void FieldReader::seed(const char* key, std::uint64_t& value) {
  const json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_number_unsigned()) return complain(key, "a whole number from 0 on");
  value = found->get<std::uint64_t>();
}

void FieldReader::real(const char* key, double& value, double least, double most) {
  const json* found = find(key);
  if (found == nullptr) return;
  const double number = found->is_number() ? found->get<double>() : std::nan("");
  if (!(number >= least && number <= most))
    return complain(key, fmt::format("a number from {:g} to {:g}", least, most));
  value = number;
}

void FieldReader::flag(const char* key, bool& value) {
  const json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_boolean()) return complain(key, "true or false");
  value = found->get<bool>();
}

std::optional<std::string> FieldReader::plain(const json& found, const std::string& key) {
  if (found.is_string() && is_plain(found.get_ref<const std::string&>())) return found.get<std::string>();
  complain(key, fmt::format("a text of one line, of at most {} bytes", longest_text));
  return std::nullopt;
}

void FieldReader::text(const char* key, std::string& value) {
  const json* found = find(key);
  if (found == nullptr) return;
  if (auto text = plain(*found, key)) value = std::move(*text);
}

void FieldReader::dictionary(const char* key, std::map<std::string, std::string>& value) {
  const json* found = find(key);
  value.clear();
  if (found == nullptr) return;
  constexpr std::size_t most = 200;
  if (!found->is_object() || found->size() > most)
    return complain(key, fmt::format("an object of at most {} texts", most));
  for (const auto& [name, each] : found->items()) {
    if (!is_plain(name)) return complain(key, "names of one line");
    if (auto text = plain(each, fmt::format("{}.{}", key, name))) value[name] = std::move(*text);
  }
}

void FieldReader::texts(const char* key, std::vector<std::string>& values, std::size_t most) {
  const json* found = array(key, most);
  values.clear();
  for (std::size_t i = 0; found != nullptr && i < found->size(); ++i) {
    if (auto text = plain((*found)[i], fmt::format("{}[{}]", key, i))) values.push_back(std::move(*text));
  }
}

std::optional<std::size_t> FieldReader::place_in(const char* key, Names names) {
  const json* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (found->is_string()) {
    const auto at = std::ranges::find(names, found->get_ref<const std::string&>());
    if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
  }
  std::string all;
  for (const std::string_view name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  complain(key, "one of " + all);
  return std::nullopt;
}

Result<json> parse_document(std::string_view text, const std::string& file) {
  std::vector<std::set<std::string>> keys;
  std::string wrong;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (!wrong.empty()) return false;
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      wrong = "a key is there twice";
    if (depth > static_cast<int>(deepest)) wrong = "it is nested too deeply";
    return wrong.empty();
  };
  try {
    json document = json::parse(text.begin(), text.end(), watch);
    if (wrong.empty()) return document;
    return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", file, wrong));
  } catch (const json::parse_error& error) {
    const std::size_t at = std::min(error.byte, text.size());
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
    return fail(ErrorCode::invalid_argument, fmt::format("{}:{}: expected JSON", file, line));
  } catch (const json::exception&) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: expected JSON with numbers that a machine has", file));
  }
}

}  // namespace loch::fuzz
