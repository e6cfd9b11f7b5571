// Writes a span for each signaled request of any fabric to a Chrome trace.
#include "common/fabric/trace/trace_fabric.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "common/fabric/decorator.h"

namespace loch::fabric {
namespace {

constexpr std::size_t buffered_spans = 65'536;
constexpr Nanos unseen = -1;
// The track of a worker's requests has this number plus the worker's index; the worker's own track has the
// index alone.
constexpr std::uint32_t requests_track = 100'000;

struct SpanRecord {
  Nanos start = 0;
  // duration in ns; `unseen` if the request has no completion, so that the trace shows it as an instant
  Nanos span = 0;
  std::uint32_t length = 0;
  NodeId peer = 0;
  Verb verb = Verb::read;
  Transport transport = Transport::rc;
  std::uint8_t lane = 0;
  WcStatus status = WcStatus::success;
  // not empty: the record is an interval that the worker marked with this text, not a request
  std::string_view mark;
};

class TracingWorker;

// Takes the place of a request's own completion sink: records the request's span, then calls the request's
// own sink. Objects are reused.
struct Timed : CompletionSink {
  TracingWorker* owner = nullptr;
  CompletionSink* original = nullptr;
  Nanos start = 0;
};

class TracingWorker final : public WrappedWorker {
 public:
  TracingWorker(Worker* inner, TraceWriter* writer) : WrappedWorker(inner), writer_(writer) {
    records_.reserve(buffered_spans);
    set_traced();
  }

  void do_post(WorkRequest* chain) override {
    const Nanos start = now();
    for (WorkRequest* request = chain; request != nullptr; request = request->next) {
      if (request->sink == nullptr) {
        record(*request, start, unseen);
        continue;
      }
      Timed* timed = take();
      timed->start = start;
      timed->original = request->sink;
      request->sink = timed;
    }
    inner().post(chain);
  }
  void do_post_detached(const WorkRequest& request) override {
    record(request, now(), unseen);
    inner().post_detached(request);
  }

  void do_mark(std::string_view what, Nanos start) override {
    if (records_.size() == buffered_spans) flush();
    records_.push_back({.start = start, .span = now() - start, .mark = what});
  }

  // Writes the buffered spans; called on the worker's thread or after the thread has ended.
  void flush() {
    for (const SpanRecord& record : records_) {
      if (!record.mark.empty()) {
        writer_->span(node(), index(), record.mark, record.start, record.span);
        continue;
      }
      char text[32], args[128];
      *fmt::format_to_n(text, sizeof text - 1, "{} {}", name(record.verb), record.length).out = 0;
      *fmt::format_to_n(args, sizeof args - 1,
                        R"({{"peer":{},"lane":{},"transport":"{}","bytes":{},"status":"{}"}})", record.peer,
                        record.lane, name(record.transport), record.length, name(record.status))
           .out = 0;
      if (record.span == unseen)
        writer_->instant(node(), requests_track + index(), text, record.start);
      else
        writer_->span(node(), requests_track + index(), text, record.start, record.span, args);
    }
    records_.clear();
  }

 private:
  static void completed(CompletionSink* sink, WorkRequest& done) {
    auto* timed = static_cast<Timed*>(sink);
    TracingWorker& self = *timed->owner;
    self.record(done, timed->start, self.now() - timed->start);
    done.sink = timed->original;
    self.free_.push_back(timed);
    done.sink->fn(done.sink, done);
  }
  Timed* take() {
    if (free_.empty()) {
      pool_.push_back(std::make_unique<Timed>());
      pool_.back()->fn = completed;
      pool_.back()->owner = this;
      free_.reserve(pool_.size());
      free_.push_back(pool_.back().get());
    }
    Timed* timed = free_.back();
    free_.pop_back();
    return timed;
  }
  void record(const WorkRequest& request, Nanos start, Nanos span) {
    if (records_.size() == buffered_spans) flush();
    records_.push_back({.start = start,
                        .span = span,
                        .length = request.length,
                        .peer = request.peer,
                        .verb = request.verb,
                        .transport = request.transport,
                        .lane = request.lane,
                        .status = span == unseen ? WcStatus::success : request.status,
                        .mark = {}});
  }

  TraceWriter* writer_;
  std::vector<SpanRecord> records_;
  std::vector<std::unique_ptr<Timed>> pool_;
  std::vector<Timed*> free_;
};

class TracingFabric final : public WrappedFabric<TracingWorker> {
 public:
  TracingFabric(std::unique_ptr<Fabric> inner, TraceWriter* writer)
      : WrappedFabric(std::move(inner)), writer_(writer) {}

  [[nodiscard]] Result<RunEnd> run() override {
    auto end = inner().run();
    for (const auto& worker : wrappers()) worker->flush();
    return end;
  }

 protected:
  [[nodiscard]] std::unique_ptr<TracingWorker> wrap(Worker* worker) override {
    if (named_nodes_.insert(worker->node()).second) {
      writer_->name_node(worker->node(), fmt::format("node {}", worker->node()));
    }
    writer_->name_track(worker->node(), worker->index(), worker->spec().name);
    writer_->name_track(worker->node(), requests_track + worker->index(),
                        fmt::format("{}: requests", worker->spec().name));
    return std::make_unique<TracingWorker>(worker, writer_);
  }

 private:
  TraceWriter* writer_;
  std::set<NodeId> named_nodes_;
};

}  // namespace

std::unique_ptr<Fabric> trace_requests(std::unique_ptr<Fabric> inner, TraceWriter* writer) {
  return std::make_unique<TracingFabric>(std::move(inner), writer);
}

}  // namespace loch::fabric
