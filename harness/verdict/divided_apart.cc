#include "harness/verdict/divided_apart.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

std::string divided_apart_in_words(const JobRecord& job) {
  if (job.divided_apart.empty()) return "";
  const DividedApart& most = *std::ranges::max_element(
      job.divided_apart, {}, [](const DividedApart& one) { return one.parameters.size(); });
  return fmt::format(
      "initial weights differed between ranks ({} of {}, such as {}) when {} divided them{}: each "
      "rank kept a part of its own, which is right only if all are drawn at random",
      most.parameters.size(), most.compared, most.parameters.front(), most.wrapper,
      most.place.empty() ? "" : ", at " + most.place);
}

}  // namespace lockstep
