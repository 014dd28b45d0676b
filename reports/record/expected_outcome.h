#pragma once

#include <array>
#include <string_view>

#include "reports/base/names.h"

namespace lockstep {

/// What `--expect` says of a run.
///   agrees      ranks agree, or the run equals the other one
///   diverges    ranks differ, or the run differs from the other one in finite values
///   hangs       ranks hang; for a job that is watched alone
///   not_finite  parameters became NaN or infinite, or values are so in the run alone
///   raises      an error ends the job
/// The first difference between ranks decides, or a hang.
enum class ExpectedOutcome { agrees, diverges, hangs, not_finite, raises };

template <>
struct Names<ExpectedOutcome> {
  static constexpr std::array<std::string_view, 5> values{"agrees", "diverges", "hangs",
                                                          "not-finite", "raises"};
};

}  // namespace lockstep
