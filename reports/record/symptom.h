#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reports/base/names.h"

namespace lockstep {

/// One-word symptom of a cell, derived from findings, rank exits and observations.
///   right             every claim holds
///   raised            an error, before any wrong value was seen or in the first wrong step
///   raised_late       an error, in a later step than the first wrong one
///   ranks_differ      no error; ranks hold different values
///   agree_but_wrong   no error; all ranks hold the same wrong values
///   never_trained     no error; a parameter's expected gradient never appeared on any rank
///   exceeds_memory    values are right; the memory use is not
///   not_finished      a rank hung, was killed or left without an error
///   undecided         no claim is violated, but not every claim holds
///   not_applicable    not run: a precondition is violated
///   mismatched        ranks made calls that do not match, which ended them, or no value is
///                     known to be wrong
///   became_not_finite no error; parameters became NaN or infinite
///   same_samples      values are right; all ranks saw the same samples
///   hung              no rank of a watched job made progress; a cell's ranks are not_finished
///   killed            a signal ended a rank of a watched job, likewise
enum class SymptomKind {
  right,
  raised,
  raised_late,
  ranks_differ,
  agree_but_wrong,
  never_trained,
  exceeds_memory,
  not_finished,
  undecided,
  not_applicable,
  mismatched,
  became_not_finite,
  same_samples,
  hung,
  killed
};

template <>
struct Names<SymptomKind> {
  static constexpr std::array<std::string_view, 15> values{
      "right",           "raised",         "raised late",    "ranks differ",
      "agree but wrong", "never trained",  "exceeds memory", "not finished",
      "undecided",       "not applicable", "mismatched",     "became not finite",
      "same samples",    "hung",           "killed"};
};

/// The symptom of a cell, with the evidence that fits on a line.
struct Symptom {
  SymptomKind kind = SymptomKind::undecided;
  std::int64_t step = 0;        ///< of the error; else the first wrong step; 0: none
  std::int64_t wrong_step = 0;  ///< first step with wrong values; 0: none seen
  std::string tensor;           ///< the first wrong tensor; empty: none seen
  std::optional<double> ratio;  ///< of that tensor to the reference, if ranks agree
  std::optional<double> cosine;
  std::string error;  ///< the first sentence of the framework's own error
  std::string text;   ///< the line: "raised in step 2 after a wrong step 1: ..."

  bool operator==(const Symptom&) const = default;
};

}  // namespace lockstep
