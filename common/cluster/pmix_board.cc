// Publishes items by PMIx and looks up those of other ranks.
#include "common/cluster/pmix_board.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pmix.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <string>

#include "common/base/check.h"

namespace loch::cluster {
namespace {

struct Api {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Publish_nb) publish = nullptr;
  decltype(&PMIx_Lookup_nb) lookup = nullptr;
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
  const bool is_whole =
      library != nullptr && find(library, "PMIx_Init", api.init) &&
      find(library, "PMIx_Finalize", api.finalize) && find(library, "PMIx_Publish_nb", api.publish) &&
      find(library, "PMIx_Lookup_nb", api.lookup) && find(library, "PMIx_Error_string", api.name_error);
  if (is_whole) return api;
  const char* reason = dlerror();
  return fail(ErrorCode::unavailable,
              fmt::format("{}; LOCH_RENDEZVOUS=FOLDER, a folder that all hosts share, does without",
                          reason != nullptr ? reason : file));
}

void set_key(pmix_info_t& info, const char* key) {
  info = {};
  std::strncpy(info.key, key, sizeof info.key - 1);
}

// Sets the range of a publication or look-up to the session: Open MPI 4.1 answers a look-up that waits for an
// item only if the publisher and the process that looks it up both name the session.
void set_range(pmix_info_t& info) {
  set_key(info, PMIX_RANGE);
  info.value.type = PMIX_DATA_RANGE;
  info.value.data.range = PMIX_RANGE_SESSION;
}

class PmixBoard final : public Board {
 public:
  PmixBoard(const Api& api, std::string job) : api_(api), job_(std::move(job)) {}

  void post(const Slot& slot, std::string bytes) override {
    Posting* posting = nullptr;
    {
      const std::lock_guard lock(mutex_);
      posting = &posted_.emplace_back();
      posting->slot = slot;
    }
    posting->board = this;
    posting->bytes = std::move(bytes);
    auto& [item, range, lifetime] = posting->info;
    set_key(item, key_of(slot).c_str());
    item.value.type = PMIX_BYTE_OBJECT;
    item.value.data.bo.bytes = posting->bytes.data();
    item.value.data.bo.size = posting->bytes.size();
    set_range(range);
    set_key(lifetime, PMIX_PERSISTENCE);
    lifetime.value.type = PMIX_PERSIST;
    lifetime.value.data.persist = PMIX_PERSIST_FIRST_READ;
    const pmix_status_t status =
        api_.publish(posting->info.data(), posting->info.size(), &PmixBoard::on_posted, posting);
    if (status != PMIX_SUCCESS) on_posted(status, posting);
  }

  void expect(const Slot& slot) override {
    Question* question = nullptr;
    {
      const std::lock_guard lock(mutex_);
      question = &asked_.emplace_back();
    }
    question->board = this;
    question->slot = slot;
    question->key = key_of(slot);
    question->keys = {question->key.data(), nullptr};
    auto& [range, wait] = question->info;
    set_range(range);
    set_key(wait, PMIX_WAIT);
    wait.value.type = PMIX_INT;
    wait.value.data.integer = 1;  // the look-up waits until one item is published
    const pmix_status_t status = api_.lookup(question->keys.data(), question->info.data(),
                                             question->info.size(), &PmixBoard::on_found, question);
    if (status != PMIX_SUCCESS) on_found(status, nullptr, 0, question);
  }

  std::optional<std::pair<Slot, std::string>> take() override {
    const std::lock_guard lock(mutex_);
    std::erase_if(asked_, [](const Question& question) { return question.is_over; });
    std::erase_if(posted_, [](const Posting& posting) { return posting.is_over; });
    if (arrived_.empty()) return std::nullopt;
    auto first = std::move(arrived_.front());
    arrived_.pop_front();
    return first;
  }

  bool is_settled(const Slot& slot) override {
    const std::lock_guard lock(mutex_);
    return std::ranges::none_of(posted_, [&](const Posting& each) {
      return !each.is_over && each.slot.lane == slot.lane && each.slot.to == slot.to;
    });
  }

  std::string failure() override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  void forget(std::uint32_t /*rank*/) override {}  // PMIx's daemons discard unread items when the job ends
  void close(bool is_whole) override {
    if (is_whole) api_.finalize(nullptr, 0);  // PMIx_Finalize may wait for ever for a lost rank
  }

 private:
  // A publication under way: PMIx uses this memory until it has called on_posted().
  struct Posting {
    PmixBoard* board = nullptr;
    Slot slot;
    std::string bytes;
    std::array<pmix_info_t, 3> info{};
    bool is_over = false;
  };
  struct Question {
    PmixBoard* board = nullptr;
    Slot slot;
    std::string key;
    std::array<char*, 2> keys{};
    std::array<pmix_info_t, 2> info{};
    bool is_over = false;
  };

  [[nodiscard]] std::string key_of(const Slot& slot) const {
    return fmt::format("loch.{}.{}.{}.{}.{}", job_, slot.lane, slot.from, slot.to, slot.number);
  }

  // PMIx calls on_posted() and on_found() on a thread of its own.
  static void on_posted(pmix_status_t status, void* context) {
    auto* posting = static_cast<Posting*>(context);
    PmixBoard& board = *posting->board;
    const std::lock_guard lock(board.mutex_);
    posting->is_over = true;
    if (status != PMIX_SUCCESS) board.fail_with(status);
  }
  static void on_found(pmix_status_t status, pmix_pdata_t* found, std::size_t count, void* context) {
    auto* question = static_cast<Question*>(context);
    PmixBoard& board = *question->board;
    const std::lock_guard lock(board.mutex_);
    question->is_over = true;
    if (status != PMIX_SUCCESS) return board.fail_with(status);
    // PMIx's daemon says who published the item; an item that is not from the expected sender is taken for an
    // empty one.
    const bool is_his = count == 1 && found != nullptr && found->proc.rank == question->slot.from &&
                        found->value.type == PMIX_BYTE_OBJECT;
    const std::string_view bytes =
        is_his ? std::string_view(found->value.data.bo.bytes, found->value.data.bo.size) : std::string_view();
    board.arrived_.emplace_back(question->slot, std::string(bytes));
  }

  void fail_with(pmix_status_t status) {
    if (failure_.empty())
      failure_ = fmt::format("the connection to mpirun's daemon is lost ({})", api_.name_error(status));
  }

  const Api api_;
  const std::string job_;
  std::mutex mutex_;
  // Lists never move their elements, to which PMIx has pointers.
  std::list<Posting> posted_;
  std::list<Question> asked_;
  std::deque<std::pair<Slot, std::string>> arrived_;
  std::string failure_;
};

}  // namespace

Result<std::unique_ptr<Board>> open_pmix_board(const LaunchEnv& env) {
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
  return std::make_unique<PmixBoard>(api, own.nspace);
}

}  // namespace loch::cluster
