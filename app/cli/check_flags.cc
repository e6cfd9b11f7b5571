// The table of `loch check`'s flags, and their conversion to the checker's options.
#include "app/cli/check_flags.h"

#include "common/base/check.h"

namespace loch::cli {
namespace {

using settings::choice;
using settings::of;
using settings::Type;

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const check::Model model : {check::Model::linearizable, check::Model::lossy_cache, check::Model::none})
    names.emplace_back(check::name(model));
  return names;
}

std::vector<settings::Flag> table_of(CheckFlags& flags) {
  return {
      {.setting = choice("model", model_names(), "what the store claims, per key", "MODEL"),
       .place = &flags.model},
      {.setting = choice("initial", {"any", "absent", "present"},
                         "what keys hold when the history begins, where it does not say", "WHAT"),
       .place = &flags.initial},
      {.setting = of(Type::boolean, "tombstone-deletes", "", "a DELETE may say ok for a key that was absent"),
       .place = &flags.has_tombstones},
      {.setting = of(Type::boolean, "print", "", "print the operations as a text history, and judge nothing"),
       .place = &flags.prints},
  };
}

}  // namespace

settings::Command check_command(CheckFlags& flags) {
  return {.name = "check",
          .usage = {"[flags] HISTORY…"},
          .about = "Judges recorded histories: is each what a correct store could have answered?",
          .operands = {{.setting = of(Type::file, "HISTORY", "", "a history file of loch bench --history"),
                        .is_repeated = true}},
          .flags = table_of(flags),
          .statuses = {{"0", "holds"}, {"1", "violated"}, {"2", "it cannot be read, or not be decided"}},
          .example = "bench --history run.jsonl && loch check run.jsonl"};
}

check::CheckOptions check_options(const CheckFlags& flags) {
  check::CheckOptions options;
  const auto model = check::parse_model(flags.model);
  LOCH_CHECK(model.has_value(), "the table has a model that the checker has not: {}", flags.model);
  options.model = *model;
  options.initial = flags.initial == "absent"    ? check::Initial::absent
                    : flags.initial == "present" ? check::Initial::present
                                                 : check::Initial::any;
  options.delete_ok_removes = !flags.has_tombstones;
  return options;
}

}  // namespace loch::cli
