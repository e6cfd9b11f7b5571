// Puts the text of this rank, and gets those of others, by PMIx.
//
// No more of PMIx than this is used, and on purpose: the server of PMIx 4.2.2 queues its answers to
// PMIx_Lookup, PMIx_Publish's counterpart, from a thread of mpirun's while its own thread sends, without a
// lock. Answers get lost, or mpirun crashes, when many look-ups are under way. Puts and gets are what every
// MPI program does at its start.
#include "common/cluster/pmix_bulletin.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pmix.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <string>
#include <string_view>

namespace loch::cluster {
namespace {

constexpr const char* key = "loch.bulletin";
constexpr auto ask_again_after = std::chrono::milliseconds(100);

struct Api {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Get_nb) get = nullptr;
  decltype(&PMIx_Register_event_handler) register_handler = nullptr;
  decltype(&PMIx_Error_string) name_error = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& into) {
  into = reinterpret_cast<Function>(dlsym(library, name));
  return into != nullptr;
}

Result<Api> load() {
  constexpr const char* file = "libpmix.so.2";
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  Api api;
  const bool is_whole = library != nullptr && find(library, "PMIx_Init", api.init) &&
                        find(library, "PMIx_Finalize", api.finalize) && find(library, "PMIx_Put", api.put) &&
                        find(library, "PMIx_Commit", api.commit) && find(library, "PMIx_Get_nb", api.get) &&
                        find(library, "PMIx_Register_event_handler", api.register_handler) &&
                        find(library, "PMIx_Error_string", api.name_error);
  if (is_whole) return api;
  const char* reason = dlerror();
  return fail(ErrorCode::unavailable,
              fmt::format("{}; LOCH_RENDEZVOUS=FOLDER, a folder that all hosts share, does without",
                          reason != nullptr ? reason : file));
}

// PMIx calls an event's handler without an argument of ours.
std::atomic<bool> is_server_lost = false;

void on_lost_server(std::size_t /*handler*/, pmix_status_t /*status*/, const pmix_proc_t* /*source*/,
                    pmix_info_t* /*info*/, std::size_t /*infos*/, pmix_info_t* /*results*/,
                    std::size_t /*result_count*/, pmix_event_notification_cbfunc_fn_t done, void* context) {
  is_server_lost = true;
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, context);
}

class PmixBulletin final : public Bulletin {
 public:
  PmixBulletin(const Api& api, const pmix_proc_t& own) : api_(api), own_(own) {
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    api_.register_handler(&code, 1, nullptr, 0, &on_lost_server, nullptr, nullptr);
  }

  void post(const std::string& text) override {
    std::string bytes = text;
    pmix_value_t value{};
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = bytes.data();
    value.data.bo.size = bytes.size();
    pmix_status_t status = api_.put(PMIX_GLOBAL, key, &value);
    if (status == PMIX_SUCCESS) status = api_.commit();
    const std::lock_guard lock(mutex_);
    if (status != PMIX_SUCCESS) fail_with(status);
  }

  void expect(std::uint32_t rank) override {
    Question* question = nullptr;
    {
      const std::lock_guard lock(mutex_);
      question = &asked_.emplace_back();
    }
    question->bulletin = this;
    question->rank = rank;
    ask(*question);
  }

  std::optional<std::pair<std::uint32_t, std::string>> take() override {
    ask_again();
    const std::lock_guard lock(mutex_);
    std::erase_if(asked_, [](const Question& question) { return question.is_answered; });
    if (arrived_.empty()) return std::nullopt;
    auto first = std::move(arrived_.front());
    arrived_.pop_front();
    return first;
  }

  std::string failure() override {
    if (is_server_lost) return "mpirun's daemon on this host has gone";
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  void close(bool is_whole) override {
    if (is_whole) api_.finalize(nullptr, 0);  // PMIx_Finalize may wait for ever for a lost rank
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Question {
    PmixBulletin* bulletin = nullptr;
    std::uint32_t rank = 0;
    bool is_answered = false;
    std::optional<Clock::time_point> ask_at;  // when to ask once more
  };

  void ask(Question& question) {
    pmix_proc_t proc{};
    std::memcpy(proc.nspace, own_.nspace, sizeof proc.nspace);
    proc.rank = question.rank;
    const pmix_status_t status = api_.get(&proc, key, nullptr, 0, &PmixBulletin::on_found, &question);
    if (status != PMIX_SUCCESS) on_found(status, nullptr, &question);
  }

  // Asks once more for what was not there yet, or not in the time that mpirun's daemon allows.
  void ask_again() {
    std::deque<Question*> due;
    {
      const std::lock_guard lock(mutex_);
      for (Question& each : asked_) {
        if (!each.ask_at || Clock::now() < *each.ask_at) continue;
        each.ask_at.reset();
        due.push_back(&each);
      }
    }
    for (Question* each : due) ask(*each);
  }

  // PMIx calls on_found() on a thread of its own.
  static void on_found(pmix_status_t status, pmix_value_t* value, void* context) {
    auto& question = *static_cast<Question*>(context);
    PmixBulletin& board = *question.bulletin;
    const std::lock_guard lock(board.mutex_);
    if (status == PMIX_ERR_NOT_FOUND || status == PMIX_ERR_TIMEOUT) {
      question.ask_at = Clock::now() + ask_again_after;
      return;
    }
    question.is_answered = true;
    if (status != PMIX_SUCCESS) return board.fail_with(status);
    const bool is_text = value != nullptr && value->type == PMIX_BYTE_OBJECT;
    const std::string_view text =
        is_text ? std::string_view(value->data.bo.bytes, value->data.bo.size) : std::string_view();
    board.arrived_.emplace_back(question.rank, std::string(text));
  }

  void fail_with(pmix_status_t status) {
    if (failure_.empty())
      failure_ = fmt::format("the connection to mpirun's daemon is lost ({})", api_.name_error(status));
  }

  const Api api_;
  const pmix_proc_t own_;
  std::mutex mutex_;
  std::list<Question> asked_;  // a list never moves its elements, to which PMIx has pointers
  std::deque<std::pair<std::uint32_t, std::string>> arrived_;
  std::string failure_;
};

}  // namespace

Result<std::unique_ptr<Bulletin>> open_pmix_bulletin(const LaunchEnv& env) {
  LOCH_ASSIGN(const Api api, load());
  pmix_proc_t own{};
  const pmix_status_t status = api.init(&own, nullptr, 0);
  if (status != PMIX_SUCCESS) {
    return fail(ErrorCode::unavailable,
                fmt::format("PMIx does not reach {}'s daemon: {}", env.launcher, api.name_error(status)));
  }
  if (own.rank != env.rank) {
    return fail(ErrorCode::unavailable,
                fmt::format("{} says rank {}, PMIx says rank {}", env.launcher, env.rank, own.rank));
  }
  return std::make_unique<PmixBulletin>(api, own);
}

}  // namespace loch::cluster
