#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/record/finding.h"
#include "reports/record/ratio.h"

namespace lockstep {

/// What a ratio to the right value means.
struct RatioMeaning {
  FindingKind kind = FindingKind::scaled_by_a_constant;
  Ratio ratio;
};

/// A size of a job that a ratio may be: "micro-batches".
struct KnownSize {
  std::int64_t count = 0;
  std::string what;

  bool operator==(const KnownSize&) const = default;
};

/// Adds a size unless it is there, or 1.
void add_size(std::int64_t count, const std::string& what, std::vector<KnownSize>& sizes);

/// The meaning of a ratio to the reference. Absent: no simple ratio is within `precision`
/// (relative), or several are. `others`: sizes of the job apart from the number of ranks.
std::optional<RatioMeaning> meaning_of_ratio(double ratio, int world_size, double precision,
                                             const std::vector<KnownSize>& others = {});

/// The simplest number that a ratio may be: 2, 1/2, 3/4, or 1.15, which is it to 4 digits.
double simple_factor(double ratio, double precision);

}  // namespace lockstep
