#include "harness/compare/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace lockstep {

bool Noise::moves() const {
  return std::any_of(distances.begin(), distances.end(),
                     [](const auto& one) { return one.second.whole > 0; });
}

Bound Noise::widened(Bound bound, Compared quantity, const std::string& name) const {
  const auto measured = distances.find({quantity, name});
  if (measured == distances.end()) return bound;
  const auto limit = [&](double distance) {
    return is_perturbed ? Limit{kOfPerturbations * distance, kOfNoise * distance}
                        : limit_of(kOfNoise * distance);
  };
  bound.whole = wider(bound.whole, limit(measured->second.whole));
  if (!bound.multiple) return bound;
  const NoiseOfTensor& most = measured->second;
  const Limit multiple = limit(is_perturbed ? most.multiple : most.whole);
  if (is_perturbed && multiple.within > bound.multiple->within) bound.decides_multiples = true;
  bound.multiple = wider(*bound.multiple, multiple);
  return bound;
}

Noise Noise::of_weights_apart(double apart) const {
  Noise further = *this;
  if (weights_apart == 0 || apart <= weights_apart) return further;
  for (auto& [tensor, distance] : further.distances) {
    distance.whole *= apart / weights_apart;
    distance.multiple *= apart / weights_apart;
  }
  return further;
}

void Noise::add(const TensorDifference& difference) {
  NoiseOfTensor& known = distances[{difference.quantity, difference.name}];
  const double multiple = difference.ratio ? std::abs(*difference.ratio - 1) : difference.relative;
  known.whole = std::max(known.whole, difference.relative);
  known.multiple = std::max(known.multiple, multiple);
}

std::string Noise::why_unstable() const {
  std::vector<double> moved;
  for (const auto& [tensor, distance] : distances) {
    if (tensor.first == Compared::gradient) moved.push_back(distance.whole);
  }
  if (!is_perturbed || moved.empty()) return "";
  const auto median = moved.begin() + std::ptrdiff_t(moved.size() / 2);
  std::nth_element(moved.begin(), median, moved.end());
  if (kOfPerturbations * *median <= kMostOfPerturbations) return "";
  return fmt::format(
      "the training is not stable from here on: perturbed runs have gradients {:.2g} of their norm "
      "apart",
      *median);
}

}  // namespace lockstep
