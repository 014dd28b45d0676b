#include "harness/verdict/untrained_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lockstep {

namespace {

constexpr std::int64_t kEnoughSteps = 2;

bool is_certain(const JobRecord& job, const Untrained& one) {
  return !one.optimizer.empty() && !one.parameters.empty() &&
         static_cast<int>(one.ranks.size()) == training_ranks(job) &&
         one.last_step >= one.first_step + kEnoughSteps;
}

/// All of the model that are trained.
std::int64_t trained_in(const Untrained& one) {
  return static_cast<std::int64_t>(one.parameters.size()) + one.held;
}

/// "SGD holds parameters that the model does not: it was made before fully_shard, at train.py:12".
std::string held_in_words(const Untrained& one) {
  const char* const later = one.is_sharded ? "fully_shard"
                            : one.held > 0 ? "a part of the model was replaced"
                                           : "the model was copied or replaced";
  return fmt::format("{} holds parameters that the model does not: it was made before {}{}",
                     one.optimizer, later, one.place.empty() ? "" : ", at " + one.place);
}

/// "no optimizer holds head.weight and 1 more of the 8 parameters of the model, though they have
/// gradients".
std::string not_held_in_words(const Untrained& one) {
  const std::size_t others = one.parameters.size() - 1;
  return fmt::format(
      "no optimizer holds {}{} of the {} parameters of the model, though {} gradients",
      one.parameters.front(), others > 0 ? fmt::format(" and {} more", others) : "",
      trained_in(one), others > 0 ? "they have" : "it has");
}

}  // namespace

std::optional<JobFault> untrained_parameters(const JobRecord& job) {
  const auto found = std::ranges::find_if(
      job.untrained, [&job](const Untrained& one) { return is_certain(job, one); });
  if (found == job.untrained.end()) return std::nullopt;
  Finding finding;
  finding.claim = are_trained();
  finding.kind = FindingKind::wrong_update;
  finding.step = found->first_step;
  finding.last_step = found->last_step - 1;
  finding.tensor = found->parameters.front();
  finding.tensors = found->parameters;
  finding.compared = trained_in(*found);
  const auto unchanged = static_cast<std::int64_t>(found->parameters.size());
  finding.places = unchanged * (finding.last_step - finding.step + 1);
  finding.groups = {found->ranks};
  const std::string cause = held_in_words(*found);
  finding.sentence =
      fmt::format("weights did not change, although they have gradients: {}.", cause);
  std::string text = fmt::format("weights did not change ({} of {}, from step {}). Cause: {}",
                                 unchanged, finding.compared, finding.step, cause);
  return fault_of(std::move(finding), std::move(text));
}

std::string untrained_in_words(const JobRecord& job) {
  const auto found = std::ranges::find_if_not(
      job.untrained, [&job](const Untrained& one) { return is_certain(job, one); });
  if (found == job.untrained.end() || found->parameters.empty()) return "";
  return found->optimizer.empty() ? not_held_in_words(*found) : held_in_words(*found);
}

}  // namespace lockstep
