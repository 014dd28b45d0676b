#pragma once

#include <string>
#include <string_view>

#include "reports/record/run_record.h"

namespace lockstep {

/// A line of a source file; both empty: unknown.
struct SourcePlace {
  std::string file;
  std::string line;  ///< empty: unknown
};

/// Of "scenarios/.../file.cc:41"; the line may be absent.
SourcePlace place_of(std::string_view text);

/// The call of the collective mismatch of a job: of a rank that called something else, or else of
/// one that waits. Unknown without a mismatch or its call sites.
SourcePlace place_of(const JobRecord& job);

}  // namespace lockstep
