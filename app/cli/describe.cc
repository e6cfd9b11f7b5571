// Writes all tables of settings as one JSON document, or as the page docs/settings.md.
#include "app/cli/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "app/cli/bench_flags.h"
#include "app/cli/list.h"
#include "common/base/die_with_parent.h"
#include "common/fabric/fault/fault_file.h"
#include "common/fabric/sim/hardware.h"
#include "workloads/spec.h"

namespace loch::cli {
namespace {

using nlohmann::ordered_json;
using settings::Setting;
using settings::Type;

bool has_range(const Setting& setting) {
  return setting.type == Type::integer || setting.type == Type::real || setting.type == Type::size ||
         setting.type == Type::duration;
}

ordered_json command_flag_json(const settings::Flag& flag) {
  ordered_json out = to_json(flag.setting);
  out["is_list"] = flag.is_list;
  if (flag.is_value_optional) out["is_value_optional"] = true;
  if (!flag.goes_with.empty()) out["goes_with"] = flag.goes_with;
  if (flag.letter != '\0') out["letter"] = std::string(1, flag.letter);
  return out;
}

ordered_json operand_json(const settings::Operand& operand) {
  ordered_json out = to_json(operand.setting);
  out["is_required"] = operand.is_required;
  out["is_repeated"] = operand.is_repeated;
  return out;
}

ordered_json flag_json(const BenchFlag& flag) {
  ordered_json out = to_json(flag.setting);
  out["is_list"] = flag.is_list;
  const std::string key = experiment_key(flag);
  if (flag.is_of_load) out["is_of_load"] = true;
  out["experiment_key"] = key.empty() ? ordered_json(nullptr) : ordered_json(key);
  return out;
}

ordered_json fault_json(const fabric::FaultKey& key) {
  ordered_json out = to_json(key.setting);
  out["fabrics"] = fault_fabrics(key);
  return out;
}

template <typename Each>
ordered_json array_of(const std::vector<Each>& settings, ordered_json (*as_json)(const Each&)) {
  ordered_json out = ordered_json::array();
  for (const Each& each : settings) out.push_back(as_json(each));
  return out;
}

ordered_json command_json(const settings::Command& command) {
  ordered_json out;
  out["name"] = command.name;
  out["about"] = command.about;
  out["usage"] = command.usage;
  out["operands"] = array_of(command.operands, operand_json);
  out["flags"] = array_of(command.flags, command_flag_json);
  out["exit_statuses"] = ordered_json::object();
  for (const auto& [status, when] : command.statuses) out["exit_statuses"][status] = when;
  out["example"] = fmt::format("{} {}", command.program, command.example);
  return out;
}

ordered_json protocol_json(const kv::Module& module) {
  ordered_json out = protocol_facts(module);
  out["options"] = array_of(module.options(), to_json);
  return out;
}

// ---- The Markdown page docs/settings.md ----------------------------------------------------------

// Escapes '|', the only Markdown character of a help line that would break a table cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char letter : text) out += letter == '|' ? std::string("\\|") : std::string(1, letter);
  return out;
}

// A Markdown table of settings; `before` is printed before each name, such as a flag's two dashes.
std::string table_of(const std::vector<Setting>& settings, std::string_view before) {
  std::string out = "| name | type | range | default | meaning |\n|---|---|---|---|---|\n";
  for (const Setting& each : settings) {
    const std::string others =
        each.aliases.empty()
            ? ""
            : fmt::format(" (also `{}{}`)", before, fmt::join(each.aliases, fmt::format("`, `{}", before)));
    const std::string unit = each.unit.empty() ? "" : fmt::format(" in {}", each.unit);
    out += fmt::format("| `{}{}` | {}{} | {} | {} | {}{} |\n", before, each.key, settings::name(each.type),
                       unit, cell(settings::range_text(each)),
                       each.initial.empty() ? "" : fmt::format("`{}`", each.initial),
                       cell(settings::meaning(each)), others);
  }
  return out;
}

std::string command_section(const settings::Command& command) {
  std::vector<Setting> operands, flags;
  for (const settings::Operand& operand : command.operands) operands.push_back(operand.setting);
  for (const settings::Flag& flag : command.flags) {
    flags.push_back(flag.setting);
    if (!flag.goes_with.empty())
      flags.back().help += fmt::format("; goes with {}", settings::list_of_flags(flag.goes_with));
  }
  std::string out = fmt::format("\n## Flags of `{} {}`\n\n", command.program, command.name);
  if (command.name == "bench")
    out +=
        "An experiment's YAML calls them the same with `_` for `-`; `--set KEY=VALUE` takes either "
        "spelling.\n\n";
  else
    out += fmt::format("{}\n\n", command.about);
  if (!operands.empty()) out += table_of(operands, "") + "\n";
  return out + table_of(flags, "--");
}

std::vector<Setting> fault_rows() {
  std::vector<Setting> out;
  for (const fabric::FaultKey& each : fabric::fault_keys()) {
    out.push_back(each.setting);
    out.back().help += fmt::format(" ({})", fault_fabrics(each));
  }
  return out;
}

std::string page(const std::vector<settings::Command>& commands) {
  std::string out =
      "# Settings\n\n"
      "Every flag, protocol option, fault, hardware constant and workload key, with its range and default. "
      "The page is\n"
      "made by `./loch-bench describe --markdown`, from the tables that the program itself parses by; a test "
      "compares.\n"
      "`loch-bench describe --json` is the same for programs.\n";
  for (const settings::Command& command : commands) out += command_section(command);
  out +=
      "\n## Faults\n\nKeys of a file of `--faults`; [formats.md](formats.md) has the entries of its "
      "`schedule`.\n\n";
  out += table_of(fault_rows(), "");
  out += "\n## Hardware profiles\n\nConstants of a file of `--hardware`, as `section.key`.\n\n";
  out += table_of(fabric::sim::hardware_settings(), "");
  out += "\n## Workload files\n\nKeys of a YAML file of `--workload`.\n\n";
  out += table_of(workloads::yaml_settings(), "");
  return out;
}

}  // namespace

ordered_json to_json(const Setting& setting) {
  ordered_json out;
  out["key"] = setting.key;
  out["type"] = settings::name(setting.type);
  out["placeholder"] = settings::placeholder(setting);
  out["help"] = setting.help;
  if (!setting.initial.empty()) out["default"] = setting.initial;
  if (!setting.initial_on_one_machine.empty()) out["default_on_shm"] = setting.initial_on_one_machine;
  if (!setting.initial_in_real_time.empty()) out["default_in_real_time"] = setting.initial_in_real_time;
  if (has_range(setting)) {
    out["minimum"] = setting.minimum;
    if (setting.maximum < 1e18) out["maximum"] = setting.maximum;
  }
  if (!setting.choices.empty()) out["choices"] = setting.choices;
  if (!setting.named_by.empty()) out["named_by"] = setting.named_by;
  if (!setting.unit.empty()) out["unit"] = setting.unit;
  if (setting.role != settings::Role::none) out["role"] = settings::name(setting.role);
  if (!setting.source.empty()) out["source"] = setting.source;
  if (!setting.aliases.empty()) out["aliases"] = setting.aliases;
  return out;
}

ordered_json describe(const kv::Registry& registry, const std::vector<settings::Command>& commands) {
  ordered_json out;
  out["schema"] = 1;
  out["flags"] = array_of(bench_flags(), flag_json);
  out["dies_with"] = parent_variable;
  out["commands"] = array_of(commands, command_json);
  out["protocols"] = ordered_json::array();
  for (const auto& [name, module] : registry) out["protocols"].push_back(protocol_json(*module));
  out["faults"] = array_of(fabric::fault_keys(), fault_json);
  out["hardware"] = array_of(fabric::sim::hardware_settings(), to_json);
  out["workload"] = array_of(workloads::yaml_settings(), to_json);
  return out;
}

Result<ordered_json> describe_hardware(const std::string& name_or_file) {
  LOCH_ASSIGN(const fabric::sim::HardwareProfile profile, fabric::sim::load_hardware(name_or_file));
  ordered_json out;
  out["schema"] = 1;
  out["name"] = profile.name;
  out["description"] = profile.description;
  out["constants"] = ordered_json::array();
  for (const fabric::sim::HardwareField& field : fabric::sim::hardware_fields()) {
    const std::string key = fmt::format("{}.{}", field.section, field.key);
    const auto source = profile.sources.find(key);
    if (source == profile.sources.end()) continue;
    ordered_json entry;
    entry["key"] = key;
    entry["value"] = fabric::sim::constant_text(field, profile);
    entry["unit"] = field.unit;
    entry["is_whole"] = fabric::sim::is_whole(field);
    entry["source"] = source->second;
    if (const auto range = profile.ranges.find(key); range != profile.ranges.end()) {
      entry["low"] = range->second.low;
      entry["high"] = range->second.high;
      entry["log"] = range->second.is_log;
      if (!range->second.source.empty()) entry["range_source"] = range->second.source;
    }
    out["constants"].push_back(std::move(entry));
  }
  return out;
}

settings::Command describe_command(DescribeFlags& flags) {
  using settings::of;
  return {.name = "describe",
          .usage = {"[--json|--markdown]", "--hardware NAME|FILE"},
          .about =
              "Every flag, option, fault, hardware constant and workload key with its type, range and "
              "default.",
          .flags = {{.setting = of(Type::boolean, "json", "", "as JSON"), .place = &flags.as_json},
                    {.setting = of(Type::boolean, "markdown", "",
                                   "as the page docs/settings.md, which is the default"),
                     .place = &flags.as_page},
                    {.setting = settings::shown(of(Type::file, "hardware", "",
                                                   "the constants of this hardware profile as JSON, with "
                                                   "value, unit, source and range"),
                                                "NAME|FILE"),
                     .place = &flags.hardware}},
          .statuses = {{"0", "printed"}, {"2", "bad input"}},
          .example = "describe --json",
          .program = "loch-bench"};
}

int run_describe(const std::vector<std::string>& arguments, const kv::Registry& registry,
                 const std::vector<settings::Command>& commands) {
  DescribeFlags flags;
  const settings::Command command = describe_command(flags);
  if (settings::asks_for_help(arguments)) {
    fmt::print("{}", settings::help(command));
    return 0;
  }
  const auto given = settings::parse(command, arguments);
  if (!given) return settings::refuse(command, given.error().message);
  if (flags.as_json && flags.as_page)
    return settings::refuse(command, "--json and --markdown: give one of them");
  if (!flags.hardware.empty()) {
    const auto described = flags.as_page
                               ? fail(ErrorCode::invalid_argument, "--markdown: not with --hardware")
                               : describe_hardware(flags.hardware);
    if (!described) return settings::refuse(command, described.error().message);
    fmt::print("{}\n", described->dump(1));
    return 0;
  }
  fmt::print("{}", flags.as_json ? describe(registry, commands).dump(1) + "\n" : page(commands));
  return 0;
}

}  // namespace loch::cli
