#include "harness/verdict/chosen_steps.h"

namespace lockstep {

std::set<std::int64_t> chosen_steps(const std::vector<std::int64_t>& steps, std::size_t most) {
  std::set<std::int64_t> chosen;
  const std::size_t stride = steps.size() / most + 1;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool is_of_first = i < most / 2;
    if (is_of_first || i % stride == 0 || i + 1 == steps.size()) chosen.insert(steps[i]);
  }
  return chosen;
}

}  // namespace lockstep
