// Writes and parses requests and replies of memcached's and Redis' text protocols.
#include "baselines/text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <iterator>

#include "common/base/check.h"

namespace loch::baselines {
namespace {

constexpr char padding = '~';

bool is_plain(char c) { return c > ' ' && c < padding; }

std::uint32_t digits(std::uint64_t value) {
  std::uint32_t n = 1;
  while (value >= 10) {
    value /= 10;
    ++n;
  }
  return n;
}

// Removes `expected` from the front of `text`; false if the text does not begin with it.
bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}
bool take(std::string_view& text, std::uint32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}
// Removes a word of a Redis request, such as "$3\r\nGET\r\n", from the front of the text.
bool take_word(std::string_view& text, std::string_view& word) {
  std::uint32_t size = 0;
  if (!take(text, "$") || !take(text, size) || !take(text, "\r\n") || text.size() < size) return false;
  word = text.substr(0, size);
  text.remove_prefix(size);
  return take(text, "\r\n");
}

std::string_view redis_verb(OpKind op) {
  constexpr std::array<std::string_view, op_kinds> verbs = {"GET", "SET", "DEL", "SETNX"};
  return verbs[static_cast<std::size_t>(op)];
}
// Removes and returns the text up to the next blank or end of line.
std::string_view take_name(std::string_view& text) {
  const std::string_view found = text.substr(0, text.find_first_of(" \r"));
  text.remove_prefix(found.size());
  return found;
}

bool parse_memcached(std::string_view head, ParsedRequest& out) {
  std::string_view rest = head;
  if (take(rest, "get ")) {
    out.op = OpKind::get;
  } else if (take(rest, "set ")) {
    out.op = OpKind::put;
  } else if (take(rest, "add ")) {
    out.op = OpKind::insert_if_absent;
  } else if (take(rest, "delete ")) {
    out.op = OpKind::remove;
  } else {
    return false;
  }
  out.key_text = take_name(rest);
  if (out.key_text.empty() || out.key_text.size() > 250) return false;
  if (brings_value(out.op) && (!take(rest, " 0 0 ") || !take(rest, out.value_size))) return false;
  if (!take(rest, "\r\n")) return false;
  out.value_at = head.size() - rest.size();
  return true;
}

bool parse_redis(std::string_view head, ParsedRequest& out) {
  std::string_view rest = head, verb;
  std::uint32_t words = 0;
  if (!take(rest, "*") || !take(rest, words) || !take(rest, "\r\n") || !take_word(rest, verb)) return false;
  if ((verb == "SET" || verb == "SETNX") && words == 3) {
    out.op = verb == "SET" ? OpKind::put : OpKind::insert_if_absent;
  } else if ((verb == "GET" || verb == "DEL") && words == 2) {
    out.op = verb == "GET" ? OpKind::get : OpKind::remove;
  } else {
    return false;
  }
  if (!take_word(rest, out.key_text)) return false;
  if (brings_value(out.op) && (!take(rest, "$") || !take(rest, out.value_size) || !take(rest, "\r\n")))
    return false;
  out.value_at = head.size() - rest.size();
  return true;
}

}  // namespace

void write_key_text(System system, kv::Key key, std::string& out) {
  const std::string_view bytes(reinterpret_cast<const char*>(key.data), key.size);
  out.assign(bytes);
  if (system == System::redis) return;
  const auto last = bytes.find_last_not_of('\0');
  const std::size_t kept = last == std::string_view::npos ? 0 : last + 1;
  bool is_text = kept > 0;
  for (std::size_t i = 0; i < kept && is_text; ++i) is_text = is_plain(bytes[i]);
  if (is_text) {
    for (std::size_t i = kept; i < out.size(); ++i) out[i] = padding;
    return;
  }
  out.assign(1, padding);
  for (const char c : bytes) fmt::format_to(std::back_inserter(out), "{:02x}", static_cast<unsigned char>(c));
}

void append_head(System system, OpKind op, std::string_view key_text, std::uint32_t value_size,
                 std::string& out) {
  const auto at = std::back_inserter(out);
  if (system == System::redis) {
    const std::string_view verb = redis_verb(op);
    fmt::format_to(at, "*{}\r\n${}\r\n{}\r\n${}\r\n", brings_value(op) ? 3 : 2, verb.size(), verb,
                   key_text.size());
    out += key_text;
    out += "\r\n";
    if (brings_value(op)) fmt::format_to(at, "${}\r\n", value_size);
    return;
  }
  switch (op) {
    case OpKind::get:
      fmt::format_to(at, "get {}\r\n", key_text);
      break;
    case OpKind::put:
      fmt::format_to(at, "set {} 0 0 {}\r\n", key_text, value_size);
      break;
    case OpKind::insert_if_absent:
      fmt::format_to(at, "add {} 0 0 {}\r\n", key_text, value_size);
      break;
    case OpKind::remove:
      fmt::format_to(at, "delete {}\r\n", key_text);
      break;
    case OpKind::lost:  // clients send no such request
      LOCH_CHECK(false);
  }
}

void append_reply(System system, OpKind op, kv::OpStatus status, std::string_view key_text,
                  std::uint32_t value_size, std::string& out) {
  constexpr const char* out_of_memory = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
  const bool is_ok = status == kv::OpStatus::ok;
  const auto at = std::back_inserter(out);
  if (system == System::redis) {
    if (op == OpKind::insert_if_absent) {
      out += is_ok ? ":1\r\n" : status == kv::OpStatus::exists ? ":0\r\n" : out_of_memory;
    } else if (op == OpKind::put) {
      out += is_ok ? "+OK\r\n" : out_of_memory;
    } else if (op == OpKind::remove) {
      out += is_ok ? ":1\r\n" : ":0\r\n";
    } else if (is_ok) {
      fmt::format_to(at, "${}\r\n", value_size);
    } else {
      out += "$-1\r\n";
    }
    return;
  }
  if (op == OpKind::insert_if_absent && status == kv::OpStatus::exists) {
    out += "NOT_STORED\r\n";
  } else if (brings_value(op)) {
    out += is_ok ? "STORED\r\n" : "SERVER_ERROR out of memory storing object\r\n";
  } else if (op == OpKind::remove) {
    out += is_ok ? "DELETED\r\n" : "NOT_FOUND\r\n";
  } else if (is_ok) {
    fmt::format_to(at, "VALUE {} 0 {}\r\n", key_text, value_size);
  } else {
    out += "END\r\n";
  }
}

std::string_view reply_end(System system) { return system == System::redis ? "\r\n" : "\r\nEND\r\n"; }

std::uint64_t request_bytes(System system, OpKind op, std::uint32_t key_bytes, std::uint32_t value_size) {
  if (system == System::redis) {
    const std::uint64_t base =
        4 + 4 + redis_verb(op).size() + 2 + (1 + digits(key_bytes) + 2) + key_bytes + 2;
    return brings_value(op) ? base + 1 + digits(value_size) + 2 + value_size + 2 : base;
  }
  switch (op) {
    case OpKind::get:
      return 4 + key_bytes + 2;
    case OpKind::put:
    case OpKind::insert_if_absent:
      return 4 + key_bytes + 5 + digits(value_size) + 2 + value_size + 2;
    case OpKind::remove:
    case OpKind::lost:
      break;
  }
  return 7 + key_bytes + 2;
}

std::uint64_t reply_bytes(System system, OpKind op, kv::OpStatus status, std::uint32_t key_bytes,
                          std::uint32_t value_size) {
  const bool is_ok = status == kv::OpStatus::ok;
  if (!is_completed(status)) return 0;
  if (system == System::redis) {
    if (op != OpKind::get) return op == OpKind::put ? 5 : 4;
    return is_ok ? 1 + digits(value_size) + 2 + value_size + 2 : 5;
  }
  if (status == kv::OpStatus::exists) return 12;
  if (brings_value(op)) return 8;
  if (op == OpKind::remove) return is_ok ? 9 : 11;
  return is_ok ? 6 + key_bytes + 3 + digits(value_size) + 2 + value_size + 7 : 5;
}

bool parse_request(System system, std::string_view head, ParsedRequest& out) {
  out = {};
  return system == System::redis ? parse_redis(head, out) : parse_memcached(head, out);
}

bool parse_reply(System system, OpKind op, std::string_view head, ParsedReply& out) {
  out = {};
  std::string_view rest = head;
  const auto is = [&](std::string_view whole, kv::OpStatus status) {
    if (!head.starts_with(whole)) return false;
    out.status = status;
    return true;
  };
  using kv::OpStatus;
  if (system == System::redis) {
    if (op == OpKind::put) return is("+OK\r\n", OpStatus::ok) || is("-OOM ", OpStatus::table_full);
    if (op == OpKind::insert_if_absent)
      return is(":1\r\n", OpStatus::ok) || is(":0\r\n", OpStatus::exists) ||
             is("-OOM ", OpStatus::table_full);
    if (op == OpKind::remove) return is(":1\r\n", OpStatus::ok) || is(":0\r\n", OpStatus::not_found);
    if (is("$-1\r\n", OpStatus::not_found)) return true;
    if (!take(rest, "$") || !take(rest, out.value_size) || !take(rest, "\r\n")) return false;
  } else {
    if (op == OpKind::insert_if_absent && is("NOT_STORED\r\n", OpStatus::exists)) return true;
    if (brings_value(op))
      return is("STORED\r\n", OpStatus::ok) || is("SERVER_ERROR out of memory", OpStatus::table_full);
    if (op == OpKind::remove)
      return is("DELETED\r\n", OpStatus::ok) || is("NOT_FOUND\r\n", OpStatus::not_found);
    if (is("END\r\n", OpStatus::not_found)) return true;
    if (!take(rest, "VALUE ") || take_name(rest).empty() || !take(rest, " 0 ") ||
        !take(rest, out.value_size) || !take(rest, "\r\n"))
      return false;
  }
  out.status = OpStatus::ok;
  out.value_at = head.size() - rest.size();
  return true;
}

}  // namespace loch::baselines
