// Stores records in one server over one connection, with many requests outstanding.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "baselines/address.h"
#include "baselines/settings.h"

namespace loch::baselines {

class Loader {
 public:
  // Connects to the server. `patience`: ns without progress after which loading fails.
  [[nodiscard]] static Result<std::unique_ptr<Loader>> connect(System system, const Address& address,
                                                               Nanos patience);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  [[nodiscard]] Result<> put(std::string_view key_text, std::span<const std::byte> value);
  // Waits until every record is stored.
  [[nodiscard]] Result<> finish();

 private:
  Loader(System system, Address address, Nanos patience, int fd)
      : system_(system), address_(std::move(address)), patience_(patience), fd_(fd) {}
  [[nodiscard]] Result<> move(std::size_t leave, bool to_the_end);
  [[nodiscard]] Result<> send_some();
  [[nodiscard]] Result<> receive_some();
  [[nodiscard]] Result<> judge_replies();
  [[nodiscard]] std::unexpected<Error> sorry(std::string_view why) const;

  System system_;
  Address address_;
  Nanos patience_;
  int fd_;
  std::string out_, in_;
  std::size_t sent_ = 0;  // bytes of out_ that are sent
  std::uint64_t unacknowledged_ = 0;
  bool moved_ = false;
};

}  // namespace loch::baselines
