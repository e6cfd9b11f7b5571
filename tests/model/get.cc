// GET: forward pass in rank order; an entry of the key answers at once; a miss is verified by a
// reverse pass (S1, sections 4.2.1 and 4.3.2).
#include <fmt/format.h>

#include "tests/model/machine.h"

namespace loch::model {
namespace {
enum Phase : std::uint8_t { forward, header, previous, verify };
}

void Machine::step_get() {
  switch (me().phase) {
    case forward: {
      const Word word = me().seen[me().i] = read(candidate(op_.key, me().i));
      if (holds_key(word, op_.key)) {
        me().phase = header;
      } else {
        get_next_rank();
      }
      return;
    }
    case header: {
      const Word word = me().seen[me().i];
      const Entry& found = entry(word);
      const bool committed = visible(s(), word);
      if (text_ != nullptr) note(fmt::format("READ d{}: {}", word.id(), committed ? "valid" : "pending"));
      if (committed) {
        respond({Answer::Type::value, found.value});
      } else if (rules_.read_previous && !found.previous.empty()) {
        me().old = found.previous;
        me().phase = previous;
      } else if (rules_.get_goes_on) {
        me().saw_pending = 1;
        get_next_rank();
      } else {
        abort();
      }
      return;
    }
    case previous: {
      const Entry& found = entry(me().old);
      if (text_ != nullptr) note(fmt::format("READ previous d{}", me().old.id()));
      if (visible(s(), me().old) && found.key == op_.key) {
        respond({Answer::Type::value, found.value});
      } else {
        abort();
      }
      return;
    }
    default: {
      const Word word = read(candidate(op_.key, me().i));
      note("(verify)");
      if (word != me().seen[me().i]) {
        abort();
      } else if (me().i == 0) {
        respond({Answer::Type::value, 0});
      } else {
        --me().i;
      }
      return;
    }
  }
}

void Machine::get_next_rank() {
  me().phase = forward;
  if (++me().i <= last_rank()) return;
  if (me().saw_pending != 0) {
    abort();
    return;
  }
  if (!rules_.get_verifies) {
    respond({Answer::Type::value, 0});
    return;
  }
  me().phase = verify;
  me().i = static_cast<std::uint8_t>(rules_.verify_omits_last ? last_rank() - 1 : last_rank());
}

}  // namespace loch::model
