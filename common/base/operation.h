// The operations of a key-value store and how they end, in the words that protocols, histories, results and
// explorations share. All are plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace loch {

// What a client asks for; and `lost`, the entry of a history that no client makes: a node was declared lost.
// insert_if_absent: stores the value only where the key has none; where it has one, says so and changes
// nothing.
enum class OpKind : std::uint8_t { get, put, remove, insert_if_absent, lost };
// The kinds that clients ask for. They come first in OpKind: an array of op_kinds has a place for each.
constexpr std::array client_kinds = {OpKind::get, OpKind::put, OpKind::remove, OpKind::insert_if_absent};
constexpr std::size_t op_kinds = client_kinds.size();
static_assert(op_kinds == static_cast<std::size_t>(OpKind::lost));
// PUT and INSERT.
[[nodiscard]] constexpr bool brings_value(OpKind kind) {
  return kind == OpKind::put || kind == OpKind::insert_if_absent;
}
[[nodiscard]] std::string_view name(
    OpKind kind);  // as in files: "get", "put", "delete", "insert_if_absent", "lost"
[[nodiscard]] std::string_view capital_name(
    OpKind kind);  // as papers write it: "GET", "PUT", "DELETE", "INSERT", "LOST"

// How an operation ended, as its client was told.
enum class OpStatus : std::uint8_t {
  ok,
  not_found,
  conflict,    // gave up after its retries: another operation was in the way
  timeout,     // the operation's expiry period passed
  table_full,  // "enlarge the table"
  error,       // a connection failed
  exists,      // INSERT: the key has a value, which stays
};
constexpr std::size_t op_statuses = static_cast<std::size_t>(OpStatus::exists) + 1;
[[nodiscard]] std::string_view name(OpStatus status);  // "ok", "not_found", …
[[nodiscard]] constexpr bool is_completed(OpStatus status) {
  return status == OpStatus::ok || status == OpStatus::not_found || status == OpStatus::exists;
}

// Whether an operation that did not complete (is_completed) took effect.
enum class Effect : std::uint8_t { none, unknown };

// The outcome of an operation in a history: what a checker may conclude from its status and effect.
enum class Outcome : std::uint8_t {
  ok,
  not_found,  // GET or DELETE: the key was absent
  failed,     // certainly had no effect, now or later
  unknown,    // may have taken effect, may do so at any later time, or never
  exists,     // INSERT: the key was present
};
[[nodiscard]] std::string_view name(Outcome outcome);  // "ok", "not_found", "failed", "unknown", "exists"
[[nodiscard]] Outcome outcome_of(OpKind kind, OpStatus status, Effect effect);

}  // namespace loch
