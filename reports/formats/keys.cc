#include "reports/formats/renderer.h"
#include "reports/record/finding_key.h"

namespace lockstep {

std::string render_keys(const RunRecord& run) {
  std::string text;
  for (const std::string& key : keys_of(run)) text += key + "\n";
  return text;
}

}  // namespace lockstep
