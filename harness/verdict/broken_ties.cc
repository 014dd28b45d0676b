#include "harness/verdict/broken_ties.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lockstep {

std::optional<JobFault> broken_ties(const JobRecord& job) {
  const auto found = std::ranges::find_if(job.broken_ties, [&job](const BrokenTie& tie) {
    return static_cast<int>(tie.ranks.size()) == training_ranks(job) && tie.parameters.size() > 1;
  });
  if (found == job.broken_ties.end()) return std::nullopt;
  Finding finding;
  finding.claim = stay_tied();
  finding.kind = FindingKind::tie_broken;
  finding.step = finding.last_step = found->step;
  finding.tensor = found->parameters.front();
  finding.tensors = found->parameters;
  finding.compared = finding.places = static_cast<std::int64_t>(found->parameters.size());
  finding.groups = {found->ranks};
  const std::string names = fmt::format("{}", fmt::join(found->parameters, " and "));
  finding.sentence =
      fmt::format("modules once shared one parameter, and train {}: {}; their values differ.",
                  found->parameters.size(), names);
  return fault_of(
      std::move(finding),
      fmt::format("a tie broke: {} were one parameter, and differ in step {}", names, found->step));
}

}  // namespace lockstep
