// Agrees on keys by X25519, and encrypts and decrypts by AES-256-GCM, both with libcrypto.
#include "common/cluster/key_agreement.h"

#include <array>

namespace loch::cluster {
namespace {

constexpr std::size_t key_bytes = 32, gcm_tag_bytes = 16;
constexpr std::array<unsigned char, 12> nonce{};

unsigned char* raw(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
const unsigned char* raw(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::unexpected<Error> corrupt() { return fail(ErrorCode::corrupt, "a sealed text was changed on its way"); }

struct FreeCipher {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
struct FreeDerivation {
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
};

}  // namespace

Result<KeyAgreement> KeyAgreement::draw() {
  Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519"));
  std::string shown(public_bytes, '\0');
  std::size_t length = shown.size();
  if (key == nullptr || EVP_PKEY_get_raw_public_key(key.get(), raw(shown), &length) != 1 ||
      length != public_bytes)
    return fail(ErrorCode::unavailable, "libcrypto makes no X25519 key");
  return KeyAgreement(std::move(key), std::move(shown));
}

Result<std::string> KeyAgreement::agree(std::string_view other_key, std::string_view sealer,
                                        std::string_view opener) const {
  if (other_key.size() != public_bytes) return fail(ErrorCode::corrupt, "a public key of another length");
  const Key other(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, raw(other_key), other_key.size()));
  const std::unique_ptr<EVP_PKEY_CTX, FreeDerivation> context(EVP_PKEY_CTX_new(key_.get(), nullptr));
  std::string text(key_bytes, '\0');
  std::size_t length = text.size();
  // Deriving fails for the few public keys whose agreed point is zero.
  if (other == nullptr || context == nullptr || EVP_PKEY_derive_init(context.get()) != 1 ||
      EVP_PKEY_derive_set_peer(context.get(), other.get()) != 1 ||
      EVP_PKEY_derive(context.get(), raw(text), &length) != 1 || length != key_bytes)
    return fail(ErrorCode::corrupt, "no key can be agreed on with that public key");
  text.append(sealer).append(opener);
  std::string key(key_bytes, '\0');
  if (EVP_Digest(text.data(), text.size(), raw(key), nullptr, EVP_sha256(), nullptr) != 1)
    return fail(ErrorCode::unavailable, "libcrypto makes no SHA-256");
  return key;
}

Result<std::string> KeyAgreement::seal(std::string_view other_key, std::string_view plain) const {
  LOCH_ASSIGN(const std::string key, agree(other_key, public_key_, other_key));
  const std::unique_ptr<EVP_CIPHER_CTX, FreeCipher> context(EVP_CIPHER_CTX_new());
  std::string sealed(plain.size() + gcm_tag_bytes, '\0');
  int length = 0, rest = 0;
  if (EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, raw(std::string_view(key)),
                         nonce.data()) != 1 ||
      EVP_EncryptUpdate(context.get(), raw(sealed), &length, raw(plain), static_cast<int>(plain.size())) !=
          1 ||
      EVP_EncryptFinal_ex(context.get(), raw(sealed) + length, &rest) != 1 ||
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, gcm_tag_bytes, raw(sealed) + plain.size()) !=
          1)
    return fail(ErrorCode::unavailable, "libcrypto does not encrypt with AES-256-GCM");
  return sealed;
}

Result<std::string> KeyAgreement::open(std::string_view other_key, std::string_view sealed) const {
  LOCH_ASSIGN(const std::string key, agree(other_key, other_key, public_key_));
  if (sealed.size() < gcm_tag_bytes) return corrupt();
  const std::size_t bytes = sealed.size() - gcm_tag_bytes;
  std::string tag(sealed.substr(bytes)), plain(bytes, '\0');
  const std::unique_ptr<EVP_CIPHER_CTX, FreeCipher> context(EVP_CIPHER_CTX_new());
  int length = 0, rest = 0;
  if (EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, raw(std::string_view(key)),
                         nonce.data()) != 1 ||
      EVP_DecryptUpdate(context.get(), raw(plain), &length, raw(sealed), static_cast<int>(bytes)) != 1 ||
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, gcm_tag_bytes, raw(tag)) != 1 ||
      EVP_DecryptFinal_ex(context.get(), raw(plain) + length, &rest) != 1)
    return corrupt();
  return plain;
}

}  // namespace loch::cluster
