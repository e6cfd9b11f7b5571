// The messages between ranks on the control plane, as bytes. All incoming messages are treated as hostile:
// Opener::open() verifies each one, or refuses it with a reason, before anything else reads it.
//
// The layout of a message, little-endian (docs/formats.md):
//
//   0        4         6      8      12    16         24              28            32
//   | magic  | version | kind | from | to  | sequence | payload bytes | incarnation | payload … | tag |
//                                                                                     0..64 MiB   32
//
// The tag is HMAC-SHA256 over all preceding bytes with the secret of the launch. Sequence numbers rise from 1
// in each direction of each pair of ranks, so that a recorded message cannot be replayed. Heartbeats have
// sequence numbers of their own, because they overtake other messages. `incarnation` is the receiver's
// incarnation (Control::incarnation) for which a part (of a collective call) or text is meant; another
// incarnation drops it. It is 0 in messages of other kinds.
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
  hello = 1,      // first message of a rank; payload: its host name
  heartbeat = 2,  // sign of life of the sender, without payload
  part = 3,       // the sender's contribution to a meeting of all ranks; payload: Part
  text = 4,       // message that Control::send() sends
  lost = 5,       // a rank died; payload: Notice about that rank
  left = 6,       // the sender's work has ended; payload: Notice, detail: exit status
  back = 7,       // the sender's work was restarted; payload: Notice, detail: its incarnation
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
inline constexpr std::uint32_t message_magic = 0x4c54434c;  // "LCTL" in little-endian order
inline constexpr std::uint16_t message_version = 1;
inline constexpr std::size_t tag_bytes = 32;
inline constexpr std::size_t message_bytes_max = sizeof(MessageHeader) + payload_bytes_max + tag_bytes;

using Secret = std::array<std::uint8_t, 32>;
// Draws the secret of a launch from getrandom(2).
[[nodiscard]] Result<Secret> draw_secret();

// The reason for which a message was refused.
enum class Refusal : std::uint8_t { size, magic, version, kind, rank, tag, replay };
inline constexpr std::size_t refusals = 7;
[[nodiscard]] const char* name(Refusal refusal);

// The last sequence numbers in one direction between two ranks: of heartbeats, and of all other messages.
struct Sequences {
  std::uint64_t beats = 0;
  std::uint64_t others = 0;
  std::uint64_t& of(Kind kind) { return kind == Kind::heartbeat ? beats : others; }
};

// Adds sequence numbers and tags to outgoing messages. Not thread-safe.
class Sealer {
 public:
  Sealer(const Secret& secret, std::uint32_t ranks) : secret_(secret), sent_(ranks) {}
  [[nodiscard]] std::string seal(const Message& message);

 private:
  Secret secret_;
  std::vector<Sequences> sent_;  // last sequence numbers sent, indexed by receiver
};

// Verifies and parses messages to rank `self`. Not thread-safe.
class Opener {
 public:
  Opener(const Secret& secret, std::uint32_t self, std::uint32_t ranks)
      : secret_(secret), self_(self), seen_(ranks) {}
  // Verifies a message. `from` is the sender according to the transport; a message that names another
  // sender is refused.
  [[nodiscard]] std::expected<Message, Refusal> open(std::string_view bytes, std::uint32_t from);
  // Number of refused messages for each reason.
  [[nodiscard]] const std::array<std::uint64_t, refusals>& refused() const { return refused_; }

 private:
  [[nodiscard]] std::expected<Message, Refusal> check(std::string_view bytes, std::uint32_t from);

  Secret secret_;
  std::uint32_t self_;
  std::vector<Sequences> seen_;  // last sequence numbers received, indexed by sender
  std::array<std::uint64_t, refusals> refused_{};
};

enum class Meeting : std::uint32_t { all_gather = 1, gather = 2, barrier = 3 };
[[nodiscard]] const char* name(Meeting meeting);

// Payload of Kind::part, a rank's contribution to a meeting (collective call); sizes in bytes: | number 8 |
// meeting 4 | length of `what` 4 | what | text |.
struct Part {
  std::uint64_t number = 0;  // identifies the meeting (a collective call); the same at all ranks
  Meeting meeting = Meeting::barrier;
  std::string what;
  std::string text;
};
inline constexpr std::size_t what_bytes_max = 256;
[[nodiscard]] std::string to_bytes(const Part& part);
[[nodiscard]] Result<Part> parse_part(std::string_view payload);

enum class Fate : std::uint32_t {
  ended = 1,   // the rank's work returned or exited; detail: exit status
  killed = 2,  // the rank's work was ended by a signal; detail: the signal's number
  silent = 3,  // the rank's process or machine has sent nothing for the time after which it counts as lost
  back = 4,    // the rank was killed and restarted; detail: its incarnation, from 1
};
// Payload of Kind::lost, left and back, sizes in bytes: | rank 4 | fate 4 | detail 4 |.
struct Notice {
  std::uint32_t rank = 0;
  Fate fate = Fate::silent;
  std::uint32_t detail = 0;
};
[[nodiscard]] std::string to_bytes(const Notice& notice);
[[nodiscard]] Result<Notice> parse_notice(std::string_view payload, std::uint32_t ranks);

// Makes a host name from outside safe to print: replaces unprintable characters and cuts it to the length
// that DNS allows.
[[nodiscard]] std::string clean_host(std::string_view name);

}  // namespace loch::cluster
