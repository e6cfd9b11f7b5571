// Names of operation kinds, statuses and outcomes, and the outcome that a history records for each
// status.
#include "common/base/operation.h"

namespace loch {

std::string_view name(OpKind kind) {
  switch (kind) {
    case OpKind::get:
      return "get";
    case OpKind::put:
      return "put";
    case OpKind::remove:
      return "delete";
    case OpKind::insert_if_absent:
      return "insert_if_absent";
    case OpKind::lost:
      return "lost";
  }
  return "?";
}

std::string_view capital_name(OpKind kind) {
  switch (kind) {
    case OpKind::get:
      return "GET";
    case OpKind::put:
      return "PUT";
    case OpKind::remove:
      return "DELETE";
    case OpKind::insert_if_absent:
      return "INSERT";
    case OpKind::lost:
      return "LOST";
  }
  return "?";
}

std::string_view name(OpStatus status) {
  switch (status) {
    case OpStatus::ok:
      return "ok";
    case OpStatus::not_found:
      return "not_found";
    case OpStatus::conflict:
      return "conflict";
    case OpStatus::timeout:
      return "timeout";
    case OpStatus::table_full:
      return "table_full";
    case OpStatus::error:
      return "error";
    case OpStatus::exists:
      return "exists";
  }
  return "?";
}

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok:
      return "ok";
    case Outcome::not_found:
      return "not_found";
    case Outcome::failed:
      return "failed";
    case Outcome::unknown:
      return "unknown";
    case Outcome::exists:
      return "exists";
  }
  return "?";
}

// Returns the outcome that a history records. Only a GET or DELETE has the outcome not_found, and only an
// INSERT has exists. Any other unsuccessful operation has failed if it certainly had no effect, as a GET
// always has none; else its outcome is unknown.
Outcome outcome_of(OpKind kind, OpStatus status, Effect effect) {
  if (status == OpStatus::ok) return Outcome::ok;
  const bool may_miss = kind == OpKind::get || kind == OpKind::remove;
  if (status == OpStatus::not_found && may_miss) return Outcome::not_found;
  if (status == OpStatus::exists && kind == OpKind::insert_if_absent) return Outcome::exists;
  if (kind == OpKind::get || effect == Effect::none) return Outcome::failed;
  return Outcome::unknown;
}

}  // namespace loch
