#include "harness/judge/values/uneven_steps.h"

#include <fmt/format.h>

namespace lockstep {

void UnevenSteps::see(const HeldTensor& place, const StepView& step) {
  if (step_ != 0 && place.step != step_) return;
  if (step_ == 0) begin(place, step);
  const bool lacks_it = rank_ >= 0 && !place.holders.contains(rank_);
  if (lacks_it) names_.push_back(place.tensor->name);
}

/// The first rank that observed the step, but not the tensor.
void UnevenSteps::begin(const HeldTensor& place, const StepView& step) {
  step_ = place.step;
  other_ = place.holders.front().first;
  for (int rank = 0; rank < step.processes() && rank_ < 0; ++rank) {
    if (!place.holders.contains(rank) && step.has_row(rank)) rank_ = rank;
  }
}

std::string UnevenSteps::in_words() const {
  if (names_.empty()) return "";
  const std::string more =
      names_.size() > 1 ? fmt::format(" and {} more", names_.size() - 1) : std::string();
  return fmt::format("rank {} did not step {}{} in step {}, which rank {} did", rank_,
                     names_.front(), more, step_, other_);
}

}  // namespace lockstep
