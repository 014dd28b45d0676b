#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// The whole record, by reports/record/record.schema.json: full precision, NaN and infinities as
/// strings. A pure function of the record, as every format of the report is.
std::string render_json(const RunRecord& run);

/// Reads what `render_json` wrote; `path` is named in errors. Throws Error (usage) when the text is
/// malformed or of another major version of the schema.
RunRecord read_json(const std::string& text, const std::string& path);

}  // namespace lockstep
