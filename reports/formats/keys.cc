#include "reports/formats/renderer.h"
#include "reports/record/finding_key.h"
#include "reports/record/without_secrets.h"

namespace lockstep {

std::string render_keys(const RunRecord& run) {
  return lines_of_keys(keys_of(without_secrets(run)));
}

}  // namespace lockstep
