#include "harness/diff/step_scales.h"

#include <algorithm>
#include <cmath>

#include "reports/base/name_pattern.h"

namespace lockstep {

NormsOfAll::NormsOfAll(const std::vector<TensorPair>& pairs) {
  for (const TensorPair& pair : pairs) {
    auto& [of_a, of_b] = squares_[key_of(pair)];
    of_a += pair.a.norm * pair.a.norm;
    of_b += pair.b.norm * pair.b.norm;
  }
}

double NormsOfAll::beside(const TensorPair& pair) const {
  const auto& [of_a, of_b] = squares_.at(key_of(pair));
  return std::sqrt(std::max(of_a, of_b));
}

std::pair<Compared, std::string> NormsOfAll::key_of(const TensorPair& pair) {
  const bool is_state = pair.quantity == Compared::optimizer_state;
  return {pair.quantity, is_state ? pair.name.substr(parameter_of(pair).size()) : ""};
}

GradientScales::GradientScales(const std::vector<TensorPair>& pairs) {
  for (const TensorPair& pair : pairs) {
    if (pair.quantity != Compared::gradient) continue;
    const double scale = std::min(root_mean_square(pair.a), root_mean_square(pair.b));
    modules_[module_of(pair.name)].emplace_back(pair.name, scale);
    largest_ = std::max(largest_, scale);
  }
}

double GradientScales::beside(const std::string& parameter) const {
  double scale = 0;
  const auto& module = modules_.at(module_of(parameter));
  for (const auto& [name, of_one] : module) {
    if (name != parameter) scale = std::max(scale, of_one);
  }
  return module.size() > 1 ? scale : largest_;
}

}  // namespace lockstep
