#include "harness/diff/noise.h"

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

NoiseOfTensor Noise::tolerance_of(Compared quantity, const std::string& name) const {
  const auto measured = distances.find({quantity, name});
  if (measured == distances.end()) return {};
  const auto& [whole, multiple] = measured->second;
  if (!is_perturbed) return {kOfNoise * whole, kOfNoise * whole};
  return {kOfPerturbations * whole, kOfPerturbations * multiple};
}

void Noise::add(const TensorDifference& difference) {
  NoiseOfTensor& known = distances[{difference.quantity, difference.name}];
  const double multiple = difference.ratio ? std::abs(*difference.ratio - 1) : difference.relative;
  known.whole = std::max(known.whole, difference.relative);
  known.multiple = std::max(known.multiple, multiple);
}

bool Noise::is_exceeded_by(double relative, double tolerance) const {
  return is_perturbed && relative > kOfNoise / kOfPerturbations * tolerance;
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
