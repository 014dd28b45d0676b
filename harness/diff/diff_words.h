#pragma once

#include <string>

#include "harness/diff/diff_record.h"

namespace lockstep {

/// The answer in one sentence: "DIFFERENT from step 1 on: gradients, first 0.weight: ...".
std::string verdict_in_words(const DiffRecord& diff);

/// The whole comparison as lines of text: the verdict, the sides, what was compared, and the first
/// step that differs. `width`: columns.
std::string diff_in_words(const DiffRecord& diff, std::size_t width);

/// The same as JSON: docs/formats.md.
std::string diff_in_json(const DiffRecord& diff);

}  // namespace lockstep
