// What ranks say to each other on the control plane, as bytes. Everything that arrives is parsed as
// hostile: it is opened by one function that refuses and says why, and only then looked at.
//
// One message, little-endian (docs/formats.md):
//
//   0        4         6      8      12    16         24              28            32
//   | magic  | version | kind | from | to  | sequence | payload bytes | incarnation | payload … | tag |
//                                                                                     0..64 MiB   32
//
// The tag is HMAC-SHA256 over all that precedes it, under the secret of the launch; sequence numbers
// rise from 1 in each direction of each pair, so that a recorded message is worth nothing. Heartbeats
// are counted apart, for they overtake. `incarnation`: that of the receiver (Control::incarnation) that a
// part or text is meant for; another drops it. 0 in the other kinds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace loch::cluster {

inline constexpr std::uint32_t ranks_max = 65'536;
inline constexpr std::size_t payload_bytes_max = std::size_t{64} << 20;
inline constexpr std::size_t host_bytes_max = 255;

enum class Kind : std::uint16_t {
  hello = 1,      // a rank's first message; payload: its host name
  heartbeat = 2,  // says only that the sender is alive
  part = 3,       // what a rank brings to a meeting; payload: Part
  text = 4,       // Control::send
  lost = 5,       // payload: Notice about a rank that died
  left = 6,       // payload: Notice of the sender, whose work has ended; detail: its exit status
  back = 7,       // payload: Notice of the sender, whose work was started again; detail: which incarnation
};

struct Message {
  Kind kind = Kind::heartbeat;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::string payload;
  std::uint32_t incarnation = 0;
};

struct MessageHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t kind;
  std::uint32_t from;
  std::uint32_t to;
  std::uint64_t sequence;
  std::uint32_t payload_bytes;
  std::uint32_t incarnation;
};
static_assert(sizeof(MessageHeader) == 32);
static_assert(offsetof(MessageHeader, sequence) == 16);
static_assert(offsetof(MessageHeader, payload_bytes) == 24);
inline constexpr std::uint32_t message_magic = 0x4c54434c;  // "LCTL"
inline constexpr std::uint16_t message_version = 1;
inline constexpr std::size_t tag_bytes = 32;
inline constexpr std::size_t message_bytes_max = sizeof(MessageHeader) + payload_bytes_max + tag_bytes;

using Secret = std::array<std::uint8_t, 32>;
// From getrandom(2).
[[nodiscard]] Result<Secret> draw_secret();

// Why a message was dropped.
enum class Refusal : std::uint8_t { size, magic, version, kind, rank, tag, replay };
inline constexpr std::size_t refusals = 7;
[[nodiscard]] const char* name(Refusal refusal);

// The last sequence numbers between two ranks: of heartbeats, and of everything else.
struct Sequences {
  std::uint64_t beats = 0;
  std::uint64_t others = 0;
  std::uint64_t& of(Kind kind) { return kind == Kind::heartbeat ? beats : others; }
};

// Gives messages their sequence numbers and tags. One thread.
class Sealer {
 public:
  Sealer(const Secret& secret, std::uint32_t ranks) : secret_(secret), sent_(ranks) {}
  [[nodiscard]] std::string seal(const Message& message);

 private:
  Secret secret_;
  std::vector<Sequences> sent_;  // by receiver
};

// Takes messages for rank `self` apart. One thread.
class Opener {
 public:
  Opener(const Secret& secret, std::uint32_t self, std::uint32_t ranks)
      : secret_(secret), self_(self), seen_(ranks) {}
  // `from` is who the transport says has sent it; the message must say the same.
  [[nodiscard]] std::expected<Message, Refusal> open(std::string_view bytes, std::uint32_t from);
  // The number of refused messages, by reason.
  [[nodiscard]] const std::array<std::uint64_t, refusals>& refused() const { return refused_; }

 private:
  [[nodiscard]] std::expected<Message, Refusal> check(std::string_view bytes, std::uint32_t from);

  Secret secret_;
  std::uint32_t self_;
  std::vector<Sequences> seen_;  // by sender
  std::array<std::uint64_t, refusals> refused_{};
};

enum class Meeting : std::uint32_t { all_gather = 1, gather = 2, barrier = 3 };
[[nodiscard]] const char* name(Meeting meeting);

// Payload of Kind::part: | number 8 | meeting 4 | bytes of what 4 | what | text |.
struct Part {
  std::uint64_t number = 0;  // meetings are counted alike in every rank
  Meeting meeting = Meeting::barrier;
  std::string what;
  std::string text;
};
inline constexpr std::size_t what_bytes_max = 256;
[[nodiscard]] std::string to_bytes(const Part& part);
[[nodiscard]] Result<Part> parse_part(std::string_view payload);

enum class Fate : std::uint32_t {
  ended = 1,   // its work returned or exited; detail: the exit status
  killed = 2,  // its work was ended by a signal; detail: which
  silent = 3,  // nothing has been heard of its process or machine for long
  back = 4,    // it was killed, and its work was started again; detail: which incarnation this is, from 1
};
// Payload of Kind::lost, left and back: | rank 4 | fate 4 | detail 4 |.
struct Notice {
  std::uint32_t rank = 0;
  Fate fate = Fate::silent;
  std::uint32_t detail = 0;
};
[[nodiscard]] std::string to_bytes(const Notice& notice);
[[nodiscard]] Result<Notice> parse_notice(std::string_view payload, std::uint32_t ranks);

// A host name from outside, made fit for a message to people: printable, not longer than DNS allows.
[[nodiscard]] std::string clean_host(std::string_view name);

}  // namespace loch::cluster
