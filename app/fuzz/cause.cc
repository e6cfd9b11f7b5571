// Derives the symptom of a violated history (false miss, lost value, stale value), and names the likely hole
// (known fault of the published design) from the symptom and the protocol's counters.
#include "app/fuzz/cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace loch::fuzz {
namespace {

using check::Operation;

// Time at which the PUT of `value` had certainly taken effect: when it returned; -1 for a preloaded value;
// nullopt if unknown.
std::optional<Nanos> written_by(const std::vector<const Operation*>& ops, const std::string& value) {
  if (value == check::preloaded_value) return -1;
  for (const Operation* o : ops) {
    if (brings_value(o->kind) && o->value == value)
      return o->outcome == Outcome::ok ? o->return_ns : std::nullopt;
  }
  return std::nullopt;
}

// Whether a GET that began after `miss` ended returned a value whose PUT had ended before `miss` began.
bool is_false_miss(const std::vector<const Operation*>& ops, const Operation& miss) {
  if (miss.outcome != Outcome::not_found || !miss.return_ns) return false;
  return std::ranges::any_of(ops, [&](const Operation* o) {
    if (o->kind != OpKind::get || o->outcome != Outcome::ok || !o->value || o->invoke_ns < *miss.return_ns)
      return false;
    const auto at = written_by(ops, *o->value);
    return at && *at <= miss.invoke_ns;
  });
}

// Whether some DELETE may have taken effect between `from` and `to`.
bool may_be_deleted(const std::vector<const Operation*>& ops, Nanos from, Nanos to) {
  return std::ranges::any_of(ops, [&](const Operation* o) {
    if (o->kind != OpKind::remove || o->outcome == Outcome::failed || o->outcome == Outcome::not_found)
      return false;
    return o->invoke_ns <= to && (!o->return_ns || o->outcome == Outcome::unknown || *o->return_ns >= from);
  });
}

bool is_lost(const std::vector<const Operation*>& ops, const Operation& miss) {
  if (miss.outcome != Outcome::not_found || !miss.return_ns) return false;
  // Latest begin of an operation that wrote or read a value whose PUT ended before the GET `miss` began. A
  // DELETE that ended before `since` cannot explain why `miss` found nothing.
  Nanos since = -1;
  for (const Operation* o : ops) {
    if (o->outcome != Outcome::ok || !o->return_ns || o->kind == OpKind::remove) continue;
    const auto written = brings_value(o->kind) ? o->return_ns : written_by(ops, o->value.value_or(""));
    if (written && *written <= miss.invoke_ns) since = std::max(since, o->invoke_ns);
  }
  return !may_be_deleted(ops, since, *miss.return_ns);
}

bool is_stale(const std::vector<const Operation*>& ops, const Operation& read) {
  if (read.kind != OpKind::get || read.outcome != Outcome::ok || !read.value) return false;
  const auto written = written_by(ops, *read.value);
  if (!written) return false;
  return std::ranges::any_of(ops, [&](const Operation* o) {
    return brings_value(o->kind) && o->outcome == Outcome::ok && o->value != read.value && o->return_ns &&
           o->invoke_ns > *written && *o->return_ns < read.invoke_ns;
  });
}

}  // namespace

std::string_view name(Symptom symptom) {
  constexpr std::array<std::string_view, 4> names = {"none", "false NOT_FOUND", "lost update", "stale read"};
  return names[static_cast<std::size_t>(symptom)];
}

Symptom symptom_of(std::span<const Operation> history, std::string_view key) {
  std::vector<const Operation*> ops;
  for (const Operation& o : history) {
    if (o.key == key) ops.push_back(&o);
  }
  const auto any = [&](auto holds) {
    return std::ranges::any_of(ops, [&](const Operation* o) { return holds(ops, *o); });
  };
  if (any(is_stale)) return Symptom::stale_read;
  if (any(is_false_miss)) return Symptom::false_not_found;
  if (any(is_lost)) return Symptom::lost_update;
  return Symptom::none;
}

std::string cause_of(Symptom symptom, const std::map<std::string, double>& counters) {
  const auto count = [&](const char* counter) {
    const auto found = counters.find(counter);
    return found == counters.end() ? 0.0 : found->second;
  };
  const double removed = count("removed_then_aborted"),
               moved = count("migrations") + count("migrations_undone");
  switch (symptom) {
    case Symptom::none:
      return "";
    case Symptom::false_not_found:
    case Symptom::lost_update:
      if (removed > 0 && symptom == Symptom::lost_update) break;
      if (moved == 0) return std::string(name(symptom));
      return fmt::format(
          "H2 false NOT_FOUND: nobody deleted the key, no writer took it away and gave up; EMPTY words "
          "looked unchanged while entries moved (migrations: {:g})",
          moved);
    case Symptom::stale_read:
      if (removed == 0) return std::string(name(symptom));
      break;
  }
  return fmt::format(
      "H1 lost update: {}; a PUT or DELETE removed a committed entry and then gave up (times in this run: "
      "{:g})",
      symptom == Symptom::stale_read ? "an older value was read after a newer one" : "nobody deleted the key",
      removed);
}

}  // namespace loch::fuzz
