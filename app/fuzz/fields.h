// Fields of a JSON object, listed once for both directions: FieldWriter writes what FieldReader reads.
// Reading is strict: every field has to be present, of its type and in its range, and no other field may be
// present. The first fault is kept as the error, with its place ("cluster.nodes: expected a whole number from
// 1 to 8"), and nothing is read after it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace loch::fuzz {

// Texts for the values of an enumeration that begins at 0, in order.
using Names = std::span<const std::string_view>;

class FieldWriter {
 public:
  static constexpr bool is_reading = false;
  explicit FieldWriter(nlohmann::ordered_json& out) : out_(out) { out_ = nlohmann::ordered_json::object(); }

  template <typename T>
  void whole(const char* key, T& value, std::int64_t, std::int64_t) {
    out_[key] = value;
  }
  void seed(const char* key, std::uint64_t& value) { out_[key] = value; }
  void real(const char* key, double& value, double, double) { out_[key] = value; }
  // Writes a field that older scenario files do not have; leaves it out if it is 0.
  void later_real(const char* key, double& value, double, double) {
    if (value != 0) out_[key] = value;
  }
  void flag(const char* key, bool& value) { out_[key] = value; }
  void text(const char* key, std::string& value) { out_[key] = value; }
  void dictionary(const char* key, std::map<std::string, std::string>& value) {
    out_[key] = nlohmann::ordered_json::object();
    for (const auto& [name, text] : value) out_[key][name] = text;
  }
  template <typename E>
  void choice(const char* key, E& value, Names names) {
    out_[key] = std::string(names[static_cast<std::size_t>(value)]);
  }
  template <typename Fields>
  void object(const char* key, Fields&& fields) {
    FieldWriter inner(out_[key]);
    fields(inner);
  }
  template <typename T, typename Fields>
  void optional(const char* key, std::optional<T>& value, Fields&& fields) {
    out_[key] = nullptr;
    if (!value) return;
    FieldWriter inner(out_[key]);
    fields(inner, *value);
  }
  // Writes a field that older scenario files do not have; leaves it out if it has no value.
  template <typename T, typename Fields>
  void later_optional(const char* key, std::optional<T>& value, Fields&& fields) {
    if (value) optional(key, value, std::forward<Fields>(fields));
  }
  template <typename T, typename Fields>
  void list(const char* key, std::vector<T>& values, std::size_t, Fields&& fields) {
    nlohmann::ordered_json& all = out_[key] = nlohmann::ordered_json::array();
    for (T& value : values) {
      FieldWriter inner(all.emplace_back());
      fields(inner, value);
    }
  }
  template <typename T>
  void numbers(const char* key, std::vector<T>& values, std::size_t, std::int64_t) {
    out_[key] = values;
  }
  void texts(const char* key, std::vector<std::string>& values, std::size_t) { out_[key] = values; }

 private:
  nlohmann::ordered_json& out_;
};

class FieldReader {
 public:
  static constexpr bool is_reading = true;
  // Reads the JSON object `in`. `where`: prefix of the object's keys in error messages, such as "cluster.".
  // `error` is empty until the first fault. `in` and `error` have to outlive the reader.
  FieldReader(const nlohmann::json& in, std::string where, std::string& error);
  // Reports each key of the object that was not read, as an unknown key.
  ~FieldReader();
  FieldReader(const FieldReader&) = delete;
  FieldReader& operator=(const FieldReader&) = delete;

  template <typename T>
  void whole(const char* key, T& value, std::int64_t least, std::int64_t most) {
    if (const auto number = integer(find(key), key, least, most)) value = static_cast<T>(*number);
  }
  void seed(const char* key, std::uint64_t& value);
  void real(const char* key, double& value, double least, double most);
  // Reads a field that older scenario files do not have; sets it to 0 if it is absent.
  void later_real(const char* key, double& value, double least, double most) {
    value = 0;
    if (in_.is_object() && in_.contains(key)) real(key, value, least, most);
  }
  void flag(const char* key, bool& value);
  // Reports that the value of `key` is not what was expected.
  void refuse(const char* key, std::string_view expected) { complain(key, expected); }
  void text(const char* key, std::string& value);
  void dictionary(const char* key, std::map<std::string, std::string>& value);
  template <typename E>
  void choice(const char* key, E& value, Names names) {
    if (const auto place = place_in(key, names)) value = static_cast<E>(*place);
  }
  template <typename Fields>
  void object(const char* key, Fields&& fields) {
    const nlohmann::json* found = find(key);
    if (found == nullptr) return;
    FieldReader inner(*found, where_ + key, error_);
    fields(inner);
  }
  template <typename T, typename Fields>
  void optional(const char* key, std::optional<T>& value, Fields&& fields) {
    const nlohmann::json* found = find(key);
    value.reset();
    if (found == nullptr || found->is_null()) return;
    FieldReader inner(*found, where_ + key, error_);
    fields(inner, value.emplace());
  }
  template <typename T, typename Fields>
  void later_optional(const char* key, std::optional<T>& value, Fields&& fields) {
    value.reset();
    if (in_.is_object() && in_.contains(key)) optional(key, value, std::forward<Fields>(fields));
  }
  template <typename T, typename Fields>
  void list(const char* key, std::vector<T>& values, std::size_t most, Fields&& fields) {
    const nlohmann::json* found = array(key, most);
    values.clear();
    for (std::size_t i = 0; found != nullptr && i < found->size() && error_.empty(); ++i) {
      FieldReader inner((*found)[i], fmt::format("{}{}[{}]", where_, key, i), error_);
      fields(inner, values.emplace_back());
    }
  }
  template <typename T>
  void numbers(const char* key, std::vector<T>& values, std::size_t most, std::int64_t highest) {
    const nlohmann::json* found = array(key, most);
    values.clear();
    for (std::size_t i = 0; found != nullptr && i < found->size() && error_.empty(); ++i) {
      const auto number = integer(&(*found)[i], fmt::format("{}[{}]", key, i), 0, highest);
      values.push_back(static_cast<T>(number.value_or(0)));
    }
  }
  void texts(const char* key, std::vector<std::string>& values, std::size_t most);

 private:
  [[nodiscard]] const nlohmann::json* find(const char* key);
  [[nodiscard]] const nlohmann::json* array(const char* key, std::size_t most);
  std::optional<std::int64_t> integer(const nlohmann::json* found, const std::string& key, std::int64_t least,
                                      std::int64_t most);
  [[nodiscard]] std::optional<std::size_t> place_in(const char* key, Names names);
  [[nodiscard]] std::optional<std::string> plain(const nlohmann::json& found, const std::string& key);
  void complain(const std::string& key, std::string_view expected);

  const nlohmann::json& in_;
  std::string where_;  // prefix of keys in errors: "", or "cluster."
  std::string& error_;
  std::set<std::string> read_;
};

// Parses a JSON document and refuses duplicate keys; an error names the file and the line.
[[nodiscard]] Result<nlohmann::json> parse_document(std::string_view text, const std::string& file);

}  // namespace loch::fuzz
