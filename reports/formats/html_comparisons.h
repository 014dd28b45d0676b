#pragma once

#include <string>

#include "reports/page/html_page.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// A comparison as a section of a page: how far apart the weights are, step by step, and of each
/// side its verdict and the tensors of the first step that differs. `has_own_verdict`: the page has
/// the heading already.
HtmlSection section_of(const Comparison& comparison, const std::string& anchor,
                       bool has_own_verdict);

}  // namespace lockstep
