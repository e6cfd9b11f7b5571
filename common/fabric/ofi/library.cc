// Loads libfabric when one of its functions is first called. Libraries that libfabric depends on (PSM, PSM2)
// sleep for 0.2 s when they are loaded, and only runs over libfabric should wait for that.
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <cstdint>

namespace {

// Returns the function of libfabric with this name and version of the symbol; null if there is no such
// library.
template <typename Function>
Function* function_of(const char* name, const char* version) {
  static void* const library = ::dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlvsym(library, name, version));
}

}  // namespace

// Definitions of the libfabric functions that this module calls; each calls the loaded library. They are
// hidden, so that libfabric's own calls do not reach them.
extern "C" {

[[gnu::visibility("hidden")]] int fi_getinfo(std::uint32_t version, const char* node, const char* service,
                                             std::uint64_t flags, const fi_info* hints, fi_info** info) {
  static auto* const call = function_of<decltype(fi_getinfo)>("fi_getinfo", "FABRIC_1.3");
  return call == nullptr ? -FI_ENOSYS : call(version, node, service, flags, hints, info);
}

[[gnu::visibility("hidden")]] void fi_freeinfo(fi_info* info) {
  static auto* const call = function_of<decltype(fi_freeinfo)>("fi_freeinfo", "FABRIC_1.3");
  if (call != nullptr) call(info);
}

[[gnu::visibility("hidden")]] fi_info* fi_dupinfo(const fi_info* info) {
  static auto* const call = function_of<decltype(fi_dupinfo)>("fi_dupinfo", "FABRIC_1.3");
  return call == nullptr ? nullptr : call(info);
}

[[gnu::visibility("hidden")]] int fi_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
  static auto* const call = function_of<decltype(fi_fabric)>("fi_fabric", "FABRIC_1.1");
  return call == nullptr ? -FI_ENOSYS : call(attributes, fabric, context);
}

[[gnu::visibility("hidden")]] const char* fi_strerror(int error) {
  static auto* const call = function_of<decltype(fi_strerror)>("fi_strerror", "FABRIC_1.0");
  return call == nullptr ? "libfabric.so.1 cannot be loaded" : call(error);
}
}
