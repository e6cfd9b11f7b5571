// Typed protocol options, the same on the command line (--nessie.filter-bits 7), in YAML
// (nessie.filter-bits: 7) and in --set.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "common/settings/setting.h"

namespace loch::kv {

// An option is a setting (common/settings): the same on the command line, in YAML and in --set.
using OptionType = settings::Type;
using OptionRole = settings::Role;
using OptionSpec = settings::Setting;

// Sets the role (what the option is for, settings::Role) of the option `key`, which has to be among `specs`.
void give_role(std::vector<OptionSpec>& specs, std::string_view key, OptionRole role);
// Makes the option that closes one hole (a known fault) of a published protocol: "nessie.mend-h2" of
// ("nessie", "h2"), also accepted as "nessie.fix-h2". `help` says what closing the hole changes.
[[nodiscard]] OptionSpec fix_option(const std::string& protocol, const std::string& hole, std::string help,
                                    const char* initial = "false");
// The option of this name or alias; nullptr if there is none.
[[nodiscard]] const OptionSpec* find_option(const std::vector<OptionSpec>& specs, std::string_view name);
// Sets the values that the fuzzer may draw for an option whose role is Role::none.
void let_fuzz(std::vector<OptionSpec>& specs, std::string_view key, std::vector<std::string> values);

// The values of a protocol's options, one for every key of the options' specifications. Reading a key that is
// not among them is a programmer's error and aborts.
class Options {
 public:
  using Value = settings::Value;

  // Sets every option to its default.
  explicit Options(std::vector<OptionSpec> specs = {});

  // Parses and sets one value; the error names the key, what was expected, and for an unknown key
  // the nearest valid name.
  [[nodiscard]] Result<> set(std::string_view key, std::string_view text);
  // The same for a default that depends on where the options are used: the option does not count as given.
  [[nodiscard]] Result<> set_default(std::string_view key, std::string_view text);
  // Whether set() has given the option a value, be it the default's.
  [[nodiscard]] bool is_given(std::string_view key) const { return given_.contains(key); }

  [[nodiscard]] bool boolean(std::string_view key) const;
  // The value of an option of type integer, size (bytes) or duration (ns).
  [[nodiscard]] std::int64_t integer(std::string_view key) const;
  [[nodiscard]] double real(std::string_view key) const;
  [[nodiscard]] const std::string& choice(std::string_view key) const;
  [[nodiscard]] const std::string& text(std::string_view key) const;

  [[nodiscard]] const std::vector<OptionSpec>& specs() const { return specs_; }
  [[nodiscard]] const std::map<std::string, Value, std::less<>>& values() const { return values_; }

 private:
  [[nodiscard]] const Value& at(std::string_view key) const;
  std::vector<OptionSpec> specs_;
  std::map<std::string, Value, std::less<>> values_;
  std::set<std::string, std::less<>> given_;
};

}  // namespace loch::kv
