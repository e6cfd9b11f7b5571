// Agrees on a key with another process over a channel that others may read, and encrypts with it: X25519, and
// AES-256-GCM with the SHA-256 of the agreed point and both public keys. Since the nonce is fixed, a pair of
// key agreements may encrypt only one text.
#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace loch::cluster {

class KeyAgreement {
 public:
  static constexpr std::size_t public_bytes = 32;

  [[nodiscard]] static Result<KeyAgreement> draw();
  [[nodiscard]] const std::string& public_key() const { return public_key_; }
  // Encrypts for the owner of the other public key.
  [[nodiscard]] Result<std::string> seal(std::string_view other_key, std::string_view plain) const;
  // Decrypts what the owner of the other public key has encrypted; corrupt if it was changed, or encrypted
  // for another key.
  [[nodiscard]] Result<std::string> open(std::string_view other_key, std::string_view sealed) const;

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  KeyAgreement(Key key, std::string public_key) : key_(std::move(key)), public_key_(std::move(public_key)) {}
  // Computes the key shared with the owner of `other_key`. `sealer` is the public key of the side that
  // encrypts, `opener` that of the side that decrypts.
  [[nodiscard]] Result<std::string> agree(std::string_view other_key, std::string_view sealer,
                                          std::string_view opener) const;

  Key key_;
  std::string public_key_;
};

}  // namespace loch::cluster
