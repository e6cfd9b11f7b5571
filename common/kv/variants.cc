// Lists the holes (known faults) of a published variant one by one, and describes INSERT as a kind of PUT.
#include "common/kv/variants.h"

#include <utility>

#include "common/base/check.h"

namespace loch::kv {

std::vector<Hole> single_holes(const Module& module, const std::map<std::string, std::string>& published,
                               const std::map<std::string, std::uint64_t>& seeds) {
  Options options(module.options());
  for (const auto& [key, value] : published)
    LOCH_CHECK(options.set(key, value).has_value(), "the option {} is there", key);
  const std::vector<Fix> all = module.fixes(options);
  std::vector<Hole> holes;
  for (const Fix& open : all) {
    const auto seed = seeds.find(open.hole);
    if (seed == seeds.end()) continue;
    Hole hole{open.hole, open.what, published, seed->second};
    for (const Fix& other : all) {
      if (other.hole != open.hole) hole.options[other.option] = "true";
    }
    holes.push_back(std::move(hole));
  }
  return holes;
}

DataSupport insert_by_put(bool is_there, std::string_view why_not) {
  DataSupport all;
  all.insert_if_absent = {
      .is_there = is_there,
      .how = is_there ? "by the client: a PUT that ends where it finds the key" : why_not};
  return all;
}

}  // namespace loch::kv
