#pragma once

#include <string>

#include "reports/run_record.h"

namespace lockstep {

/// Reads what `render_json` wrote; `path` is named in errors. Throws Error (usage) when the text is
/// malformed or of another major version of the schema.
RunRecord read_json(const std::string& text, const std::string& path);

}  // namespace lockstep
