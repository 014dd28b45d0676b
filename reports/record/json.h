#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// The whole record, following reports/record/record.schema.json: full precision, NaN and
/// infinities as strings. Like every report format, it is a pure function of the record.
std::string render_json(const RunRecord& run);

/// Reads the output of `render_json`; errors name `path`. Throws Error (usage) when the text is
/// malformed or of another version of the schema.
RunRecord read_json(const std::string& text, const std::string& path);

/// The same JSON without characters that a terminal or CI service would obey: inside strings, where
/// alone they occur, they can be escaped.
std::string without_commands(const std::string& json);

}  // namespace lockstep
