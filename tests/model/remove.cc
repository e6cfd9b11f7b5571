// DELETE without a tombstone: by one CAS of the committed word, or as in 2015 rank by rank.
#include "tests/model/machine.h"

namespace loch::model {
namespace {
enum Phase : std::uint8_t { forward, header, unlink, verify };
}

void Machine::step_single_cas_delete() {
  switch (me().phase) {
    case forward: {
      const Word word = me().seen[me().i] = read(candidate(op_.key, me().i));
      if (holds_key(word, op_.key)) {
        me().phase = header;
      } else if (++me().i > last_rank()) {
        me().phase = verify;
        me().i = static_cast<std::uint8_t>(rules_.verify_omits_last ? last_rank() - 1 : last_rank());
      }
      return;
    }
    case header:
      note("READ header");
      if (visible(s(), me().seen[me().i])) {
        me().phase = unlink;
      } else {
        abort();
      }
      return;
    case unlink: {
      const Word word = me().seen[me().i];
      if (cas(candidate(op_.key, me().i), word, emptied(word))) {
        recycle(word);
        done();
      } else {
        abort();
      }
      return;
    }
    default:
      if (read(candidate(op_.key, me().i)) != me().seen[me().i]) {
        abort();
      } else if (me().i == 0) {
        respond({Answer::Type::not_found});
      } else {
        --me().i;
      }
  }
}

// S0: from the last rank to the first, no verification.
void Machine::step_clear_each() {
  constexpr std::uint8_t begin = 0;
  constexpr std::uint8_t look = 1;
  constexpr std::uint8_t clear = 2;
  if (me().phase == begin) {
    me().i = static_cast<std::uint8_t>(last_rank());
    me().phase = look;
  }
  const auto next_rank = [this] {
    me().phase = look;
    if (me().i == 0) {
      respond({me().removed_any != 0 ? Answer::Type::ok : Answer::Type::not_found});
    } else {
      --me().i;
    }
  };
  if (me().phase == look) {
    const Word word = me().seen[me().i] = read(candidate(op_.key, me().i));
    if (holds_key(word, op_.key)) {
      me().phase = clear;
    } else {
      next_rank();
    }
    return;
  }
  const Word word = me().seen[me().i];
  if (!cas(candidate(op_.key, me().i), word, emptied(word))) {
    abort();
    return;
  }
  recycle(word);
  me().removed_any = 1;
  next_rank();
}

}  // namespace loch::model
