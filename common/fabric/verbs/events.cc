// Sorts the asynchronous events of libibverbs by what they mean for a run.
#include "common/fabric/verbs/events.h"

#include <iterator>

namespace loch::fabric::verbs {

EventEffect effect_of(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_WQ_FATAL:
      return EventEffect::fatal;
    case IBV_EVENT_PORT_ERR:
      return EventEffect::port_down;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_PATH_MIG_ERR:
      return EventEffect::symptom;
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      return EventEffect::receiver;
    default:
      return EventEffect::none;
  }
}

std::string_view event_name(ibv_event_type type) {
  constexpr std::string_view names[] = {"IBV_EVENT_CQ_ERR",
                                        "IBV_EVENT_QP_FATAL",
                                        "IBV_EVENT_QP_REQ_ERR",
                                        "IBV_EVENT_QP_ACCESS_ERR",
                                        "IBV_EVENT_COMM_EST",
                                        "IBV_EVENT_SQ_DRAINED",
                                        "IBV_EVENT_PATH_MIG",
                                        "IBV_EVENT_PATH_MIG_ERR",
                                        "IBV_EVENT_DEVICE_FATAL",
                                        "IBV_EVENT_PORT_ACTIVE",
                                        "IBV_EVENT_PORT_ERR",
                                        "IBV_EVENT_LID_CHANGE",
                                        "IBV_EVENT_PKEY_CHANGE",
                                        "IBV_EVENT_SM_CHANGE",
                                        "IBV_EVENT_SRQ_ERR",
                                        "IBV_EVENT_SRQ_LIMIT_REACHED",
                                        "IBV_EVENT_QP_LAST_WQE_REACHED",
                                        "IBV_EVENT_CLIENT_REREGISTER",
                                        "IBV_EVENT_GID_CHANGE",
                                        "IBV_EVENT_WQ_FATAL"};
  static_assert(IBV_EVENT_CQ_ERR == 0 && IBV_EVENT_DEVICE_FATAL == 8 && IBV_EVENT_WQ_FATAL == 19 &&
                std::size(names) == 20);
  const auto at = static_cast<std::size_t>(type);
  return at < std::size(names) ? names[at] : "an unknown event";
}

bool is_of_queue_pair(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return true;
    default:
      return false;
  }
}

}  // namespace loch::fabric::verbs
