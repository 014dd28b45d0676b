#pragma once

#include <array>
#include <string>
#include <string_view>

#include "harness/diff/diff_record.h"
#include "reports/base/names.h"

namespace lockstep {

/// What a fix did to a job, next to a reference that is right.
///   fixed        it differed before, and is equal now
///   still_there  it differed before, and does now
///   new_fault    it differs now alone
///   not_shown    it did not differ before, and does not now
///   not_decided  it differed before; now it cannot be decided
enum class FixOutcome { fixed, still_there, new_fault, not_shown, not_decided };

template <>
struct Names<FixOutcome> {
  static constexpr std::array<std::string_view, 5> values{"FIXED", "STILL THERE", "NEW",
                                                          "NOT SHOWN", "NOT DECIDED"};
};

FixOutcome outcome_of_fix(const DiffRecord& before, const DiffRecord& after);

/// "FIXED: ...", "STILL THERE: ...", "NOT SHOWN BEFORE THE FIX: ...".
std::string fix_in_words(const DiffRecord& before, const DiffRecord& after);

/// Both comparisons and the outcome as one JSON document: docs/formats.md.
std::string fix_in_json(const DiffRecord& before, const DiffRecord& after);

}  // namespace lockstep
