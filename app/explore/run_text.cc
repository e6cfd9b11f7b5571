// Describes moves in words, and decides which moves are independent.
#include <fmt/format.h>

#include "app/explore/run.h"

namespace loch::explore {
namespace {

using fabric::WorkRequest;

std::string half_of(const WorkRequest& request, const fabric::step::Tear& tear) {
  const std::string what = tear.is_upper_first ? fmt::format("from byte {} on", tear.lower_bytes)
                                               : fmt::format("its first {} bytes", tear.lower_bytes);
  if (request.verb == fabric::Verb::write) return "torn: " + what + " are placed";
  return fmt::format("torn: {} {}", what, tear.is_at_landing ? "land" : "are fetched");
}

std::string outcome(const Move& move, const WorkRequest& before, const WorkRequest& after) {
  const bool is_cut = move.kind == Kind::not_executed_cut || move.kind == Kind::unheard_cut;
  const bool is_unheard = move.kind == Kind::unheard || move.kind == Kind::unheard_cut;
  const std::string error =
      is_cut ? "the connection is in error, and cannot be made again in time" : "the connection is in error";
  if (move.kind == Kind::not_executed || move.kind == Kind::not_executed_cut) {
    return after.status == fabric::WcStatus::success ? "lost; the sender hears nothing"
                                                     : "fails, NOT executed; " + error;
  }
  std::string text;
  if (after.status == fabric::WcStatus::flushed) {
    text = "flushed";
  } else if (before.verb == fabric::Verb::cas) {
    // If the completion is lost, the requester does not learn the result of the CAS, so the text does not
    // give the result.
    if (!is_unheard)
      text =
          after.result == before.compare ? "swapped" : fmt::format("lost, the word is {:016x}", after.result);
  } else if (before.verb == fabric::Verb::faa && !is_unheard) {
    text = fmt::format("was {}", after.result);
  } else {
    text = "executed";
  }
  if (is_unheard) text = "executed, but FAILS for the requester; " + error;
  return text;
}

}  // namespace

std::string Run::place_of(const WorkRequest& request) const {
  for (const auto& memory : memory_) {
    if (memory.region->node() == request.remote.node && memory.region->id() == request.remote.id) {
      return fmt::format("{} of node {} at {}", memory.region->name(), request.remote.node,
                         request.remote_offset);
    }
  }
  return "nowhere";
}

std::string Run::describe(const Move& move, const WorkRequest* before, const WorkRequest* after,
                          bool is_rest) const {
  const bool is_client = move.worker < clients_.size();
  std::string who = is_client ? fmt::format("client {}", static_cast<char>('A' + move.worker))
                              : fmt::format("server of node {}", workers_[move.worker]->node());
  if (move.kind == Kind::clock) return "all clocks pass the expiry period";
  std::string text = who + ": ";
  if (before != nullptr) {
    const std::string verb = fmt::format("{}", fabric::name(before->verb));
    if (before->verb == fabric::Verb::send) {
      text += fmt::format("SEND of {} bytes to worker {} of node {}", before->length, before->peer_worker,
                          before->peer);
    } else {
      text += fmt::format("{} {}", verb, place_of(*before));
      if (before->verb == fabric::Verb::cas)
        text += fmt::format(", {:016x} -> {:016x}", before->compare, before->operand);
      else if (before->verb == fabric::Verb::faa)
        text += fmt::format(", adds {}", before->operand);
      else
        text += fmt::format(", {} bytes", before->length);
    }
    if (move.kind == Kind::tear)
      text += ": " + half_of(*before, *fabric_->torn(worker(move.worker), move.request));
    else
      text += (is_rest ? ": the rest: " : ": ") + outcome(move, *before, *after);
  }
  switch (move.kind) {
    case Kind::begin:
      text += "begins " + plan_.scenario.describe(operations_.back().step);
      break;
    case Kind::news:
      text += "notices what has arrived";
      break;
    case Kind::alarm:
      text += "has waited its time";
      break;
    case Kind::late:
      text += move.request == 2 ? "looks again and again while time passes" : "a deadline passes";
      break;
    case Kind::kill:
      text += "dies";
      break;
    case Kind::kill_executed:
      text += "; it dies before it hears of it";
      break;
    default:
      break;
  }
  for (const Operation& o : operations_) {
    if (o.ended != moves_made_) continue;
    text += fmt::format("; {} answers {}{}", plan_.scenario.describe(o.step), name(o.status),
                        o.step.verb == Verb::get && !o.value.empty() ? " " + o.value : "");
    if (o.effect == kv::Effect::unknown) text += ", effect unknown";
  }
  return text;
}

// Whether a request accesses memory that a CPU step reads or changes.
static bool touches(const Footprint& request, const Footprint& step) {
  if (request.target != step.node) return false;
  if (request.is_message) return true;
  if (request.region < 0) return false;
  if (request.region_is_seen && request.is_write) return true;
  return (step.changed >> static_cast<unsigned>(request.region) & 1U) != 0;
}

bool are_independent(const Footprint& a, const Footprint& b) {
  if (a.is_global || b.is_global || a.is_ordered || b.is_ordered || a.node == b.node) return false;
  // Two moves are dependent if one ends an operation and the other begins one, because their order decides
  // whether the first operation precedes the second in the history.
  if ((a.begins && b.ends) || (a.ends && b.begins)) return false;
  const auto is_change = [](const Footprint& each) { return each.is_write || each.changed != 0; };
  if ((a.polls && is_change(b)) || (b.polls && is_change(a))) return false;
  if (a.fails && b.fails) return false;  // each move may use up the last failure that Bounds allows
  if (touches(a, b) || touches(b, a)) return false;
  if (a.is_message && b.is_message && a.target == b.target) return false;
  const bool same_bytes = a.region >= 0 && a.region == b.region && a.from < b.to && b.from < a.to;
  return !same_bytes || (!a.is_write && !b.is_write);
}

}  // namespace loch::explore
