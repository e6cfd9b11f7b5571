// The two text protocols as far as the baselines use them: keys, requests, replies, and their sizes.
//
//   memcached   get KEY\r\n                    VALUE KEY FLAGS SIZE\r\n VALUE \r\nEND\r\n, or END\r\n
//               set KEY 0 0 SIZE\r\n VALUE \r\n    STORED\r\n
//               add as set                     STORED\r\n, or NOT_STORED\r\n
//               delete KEY\r\n                 DELETED\r\n, or NOT_FOUND\r\n
//   Redis       *2 GET KEY                     $SIZE\r\n VALUE \r\n, or $-1\r\n
//               *3 SET KEY VALUE               +OK\r\n
//               *3 SETNX KEY VALUE             :1\r\n, or :0\r\n
//               *2 DEL KEY                     :1\r\n, or :0\r\n
//               (a word of a Redis request is $SIZE\r\n WORD \r\n)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "baselines/settings.h"
#include "common/kv/protocol.h"

namespace loch::baselines {

// Writes the key's text for the server. For Redis, it is the key's bytes. memcached allows no blanks and no
// control bytes: the zeros at the end of a padded key become '~', which keeps its length; a key with other
// such bytes becomes '~' and two hexadecimal digits for each byte. Different keys have different texts.
void write_key_text(System system, kv::Key key, std::string& out);

// Appends a request: all of it, or for a PUT or INSERT the part before the value.
void append_head(System system, OpKind op, std::string_view key_text, std::uint32_t value_size,
                 std::string& out);
// The text after the value of a PUT or INSERT.
constexpr std::string_view value_end = "\r\n";
// Appends a reply: all of it, or for a successful GET the part before the value.
void append_reply(System system, OpKind op, kv::OpStatus status, std::string_view key_text,
                  std::uint32_t value_size, std::string& out);
// The text after a GET's value.
[[nodiscard]] std::string_view reply_end(System system);

// Bytes of a request, and of its reply. The size of a reply is known only for the statuses of completed
// operations; for any other `status`, reply_bytes() returns 0.
[[nodiscard]] std::uint64_t request_bytes(System system, OpKind op, std::uint32_t key_bytes,
                                          std::uint32_t value_size);
[[nodiscard]] std::uint64_t reply_bytes(System system, OpKind op, kv::OpStatus status,
                                        std::uint32_t key_bytes, std::uint32_t value_size);

// ---- Parsing a request's text, for the modelled server ------------------------------------------------
struct ParsedRequest {
  OpKind op = OpKind::get;
  std::string_view key_text;
  std::uint32_t value_size = 0;  // size of the value of a PUT or INSERT
  std::size_t value_at = 0;      // offset in the request of a PUT's or INSERT's value
};
// Parses a request; false if the text is no request of this protocol. `head` begins with the request and has
// at least its bytes before the value.
[[nodiscard]] bool parse_request(System system, std::string_view head, ParsedRequest& out);

struct ParsedReply {
  kv::OpStatus status = kv::OpStatus::error;
  std::uint32_t value_size = 0;  // size of the value that a GET found
  std::size_t value_at = 0;
};
[[nodiscard]] bool parse_reply(System system, OpKind op, std::string_view head, ParsedReply& out);

}  // namespace loch::baselines
