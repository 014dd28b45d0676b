#pragma once

#include <string>
#include <vector>

#include "harness/diff/diff_record.h"

namespace lockstep {

/// A comparison, as part of a page.
struct NamedDiff {
  std::string name;  ///< "before the fix"; empty: there is only one
  const DiffRecord* diff = nullptr;
};

/// Comparisons with the same A as one HTML page that loads nothing: each verdict, how far apart the
/// weights are, step by step, and the tensors of the first step that differs. `sentence`: about all
/// of them; empty: the verdict of the only one.
std::string diff_page(const std::vector<NamedDiff>& diffs, const std::string& sentence);

}  // namespace lockstep
