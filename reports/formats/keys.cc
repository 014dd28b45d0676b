#include "reports/formats/renderer.h"
#include "reports/record/finding_key.h"

namespace lockstep {

std::string render_keys(const RunRecord& run) { return lines_of_keys(keys_of(run)); }

}  // namespace lockstep
