#pragma once

#include <string>
#include <string_view>

#include "reports/record/finding_kind.h"

namespace lockstep {

/// The page about a kind of finding: docs/findings/KIND.md, compiled into the program.
std::string_view page_of(FindingKind kind);

/// The first paragraph of that page: "After the reduction, ranks hold different gradients of the
/// same parameter."
std::string meaning_of(FindingKind kind);

}  // namespace lockstep
