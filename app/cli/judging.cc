// Chooses the checker's model for a protocol from the consistency that its module claims.
#include "app/cli/judging.h"

namespace loch::cli {

check::CheckOptions judging(const kv::Module& module, const kv::Options& options, check::Initial initial) {
  check::CheckOptions out;
  switch (module.consistency(options)) {
    case kv::Consistency::linearizable:
      out.model = check::Model::linearizable;
      break;
    case kv::Consistency::lossy_cache:
      out.model = check::Model::lossy_cache;
      break;
    case kv::Consistency::none:
      out.model = check::Model::none;
      break;
  }
  out.initial = initial;
  out.delete_ok_removes = module.delete_ok_removes(options);
  out.report_limit = 1;
  return out;
}

}  // namespace loch::cli
