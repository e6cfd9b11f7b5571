// Stores keys and values of different sizes in a store with one size of each: pads keys, and puts each value
// into a slot that begins with the value's length.
#include "common/kv/slotted.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace loch::kv {
namespace {

struct Shape {
  DeployConfig outer, inner;
  SlotUse use;
};

// If memory stores only the first `kept` bytes of a slot, which begins with the value's length: how many
// bytes of its value, of `length` bytes, are stored.
std::uint32_t kept_of(std::uint32_t kept, std::uint32_t length) {
  return std::min(length, kept - std::min(kept, slot_head_bytes));
}

class SlottedClient final : public Client {
 public:
  SlottedClient(std::unique_ptr<Client> inner, const Shape& shape)
      : inner_(std::move(inner)),
        shape_(shape),
        key_(shape.inner.key_size),
        slot_(std::min(shape.inner.kept_value_bytes, shape.inner.value_size)) {}

  coro::Task<OpResult> get(Key key, fabric::OpStats* stats) override {
    const Key padded = pad(key);
    OpResult result = co_await inner_->get(padded, stats);
    if (result.status == OpStatus::ok && shape_.use.values) result.value = unwrap(result.value);
    co_return result;
  }
  coro::Task<OpResult> put(Key key, ValueView value, fabric::OpStats* stats) override {
    const Key padded = pad(key);
    const ValueView slot = wrap(value);
    co_return co_await inner_->put(padded, slot, stats);
  }
  coro::Task<OpResult> remove(Key key, fabric::OpStats* stats) override {
    const Key padded = pad(key);
    co_return co_await inner_->remove(padded, stats);
  }
  coro::Task<OpResult> insert_if_absent(Key key, ValueView value, fabric::OpStats* stats) override {
    const Key padded = pad(key);
    const ValueView slot = wrap(value);
    co_return co_await inner_->insert_if_absent(padded, slot, stats);
  }
  [[nodiscard]] bool can_migrate() const override { return inner_->can_migrate(); }
  coro::Task<OpResult> migrate(Key key, fabric::OpStats* stats) override {
    const Key padded = pad(key);
    co_return co_await inner_->migrate(padded, stats);
  }

 private:
  Key pad(Key key) {
    if (!shape_.use.keys) return key;
    LOCH_CHECK_LE(key.size, shape_.inner.key_size);
    std::memcpy(key_.data(), key.data, key.size);
    std::memset(key_.data() + key.size, 0, key_.size() - key.size);
    return {key_.data(), shape_.inner.key_size};
  }
  ValueView wrap(ValueView value) {
    if (!shape_.use.values) return value;
    LOCH_CHECK_LE(value.size, shape_.outer.value_size);
    const std::uint64_t length = value.size;
    std::memcpy(slot_.data(), &length, slot_head_bytes);
    const auto room = static_cast<std::uint32_t>(slot_.size());
    std::memcpy(slot_.data() + slot_head_bytes, value.data, std::min(value.kept, kept_of(room, value.size)));
    return {slot_.data(), shape_.inner.value_size, room};
  }
  // A length that no slot can have is a sign of a corrupt value: it is returned as a value of 0 bytes, which
  // verification finds.
  ValueView unwrap(ValueView slot) const {
    std::uint64_t length = 0;
    if (slot.kept < slot_head_bytes) return {slot.data, 0, 0};
    std::memcpy(&length, slot.data, slot_head_bytes);
    if (length > shape_.outer.value_size || slot.size != shape_.inner.value_size) return {slot.data, 0, 0};
    const auto size = static_cast<std::uint32_t>(length);
    return {slot.data + slot_head_bytes, size, kept_of(slot.kept, size)};
  }

  std::unique_ptr<Client> inner_;
  const Shape& shape_;
  std::vector<std::byte> key_, slot_;
};

class SlottedData final : public Dataset {
 public:
  SlottedData(const Dataset& data, const Shape& shape) : data_(data), shape_(shape) {}
  [[nodiscard]] std::uint64_t count() const override { return data_.count(); }
  [[nodiscard]] std::uint32_t key_size(std::uint64_t i, std::uint32_t largest) const override {
    return shape_.use.keys ? largest : data_.key_size(i, largest);
  }
  [[nodiscard]] std::uint32_t value_size(std::uint64_t i, std::uint32_t largest) const override {
    return shape_.use.values ? largest : data_.value_size(i, largest);
  }
  void key(std::uint64_t i, std::byte* out) const override {
    if (shape_.use.keys) std::memset(out, 0, shape_.inner.key_size);
    data_.key(i, out);
  }
  void value(std::uint64_t i, std::byte* out, std::uint32_t bytes) const override {
    if (!shape_.use.values) return data_.value(i, out, bytes);
    const std::uint32_t size = data_.value_size(i, shape_.outer.value_size);
    const std::uint64_t length = size;
    std::memset(out, 0, bytes);
    std::memcpy(out, &length, std::min(bytes, slot_head_bytes));
    if (bytes > slot_head_bytes) data_.value(i, out + slot_head_bytes, kept_of(bytes, size));
  }

 private:
  const Dataset& data_;
  const Shape& shape_;
};

class SlottedStore final : public Store {
 public:
  SlottedStore(std::unique_ptr<Store> inner, const DeployConfig& config, SlotUse use)
      : inner_(std::move(inner)), shape_{config, slotted(config, use), use} {}

  Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override {
    return inner_->setup_node(fabric, node);
  }
  Result<> connect(fabric::Fabric& fabric) override { return inner_->connect(fabric); }
  Result<> preload(fabric::Fabric& fabric, const Dataset& data) override {
    return inner_->preload(fabric, SlottedData(data, shape_));
  }
  coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override {
    return inner_->serve(worker, index);
  }
  std::unique_ptr<Client> client(fabric::Worker& worker, std::uint32_t slot) override {
    return std::make_unique<SlottedClient>(inner_->client(worker, slot), shape_);
  }
  [[nodiscard]] bool has_background() const override { return inner_->has_background(); }
  coro::Task<void> background(fabric::Worker& worker, const bool* done) override {
    return inner_->background(worker, done);
  }
  coro::Task<Repair> scrub(fabric::Worker& worker, std::vector<ClientId> dead) override {
    return inner_->scrub(worker, std::move(dead));
  }
  coro::Task<Repair> declare_lost(fabric::Worker& worker, std::vector<fabric::NodeId> lost) override {
    return inner_->declare_lost(worker, std::move(lost));
  }
  Result<> restart_node(fabric::Fabric& fabric, fabric::NodeId node) override {
    return inner_->restart_node(fabric, node);
  }
  [[nodiscard]] bool needs(Key key, fabric::NodeId node, std::optional<std::uint32_t> server) const override {
    if (!shape_.use.keys) return inner_->needs(key, node, server);
    std::vector<std::byte> padded(shape_.inner.key_size);
    std::memcpy(padded.data(), key.data, key.size);
    return inner_->needs({padded.data(), shape_.inner.key_size}, node, server);
  }
  [[nodiscard]] std::vector<std::string> audit(const std::vector<fabric::NodeId>& lost) const override {
    return inner_->audit(lost);
  }
  [[nodiscard]] std::string transport() const override { return inner_->transport(); }
  [[nodiscard]] std::vector<std::string> notes() const override { return inner_->notes(); }
  [[nodiscard]] std::map<std::string, double> counters() const override { return inner_->counters(); }

 private:
  std::unique_ptr<Store> inner_;
  const Shape shape_;
};

}  // namespace

DeployConfig slotted(DeployConfig config, SlotUse use) {
  if (!use.values) return config;
  config.value_size += slot_head_bytes;
  config.kept_value_bytes += slot_head_bytes;
  return config;
}

std::unique_ptr<Store> make_slotted(std::unique_ptr<Store> inner, const DeployConfig& config, SlotUse use) {
  return std::make_unique<SlottedStore>(std::move(inner), config, use);
}

}  // namespace loch::kv
