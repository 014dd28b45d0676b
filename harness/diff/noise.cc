#include "harness/diff/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace lockstep {

bool Noise::moves() const {
  return std::any_of(distances.begin(), distances.end(),
                     [](const auto& one) { return one.second > 0; });
}

double Noise::of(Compared quantity, const std::string& name) const {
  const auto measured = distances.find({quantity, name});
  return measured == distances.end() ? 0 : measured->second;
}

double Noise::tolerance_of(Compared quantity, const std::string& name) const {
  return (is_perturbed ? kOfPerturbations : kOfNoise) * of(quantity, name);
}

double Noise::tolerance_of_multiple(Compared quantity, const std::string& name) const {
  const auto measured = multiples.find({quantity, name});
  if (!is_perturbed || measured == multiples.end()) return tolerance_of(quantity, name);
  return kOfPerturbations * measured->second;
}

void Noise::add(const TensorDifference& difference) {
  const std::pair key{difference.quantity, difference.name};
  double& distance = distances[key];
  distance = std::max(distance, difference.relative);
  double& multiple = multiples[key];
  multiple =
      std::max(multiple, difference.ratio ? std::abs(*difference.ratio - 1) : difference.relative);
}

bool Noise::is_exceeded_by(double relative, double tolerance) const {
  return is_perturbed && relative > kOfNoise / kOfPerturbations * tolerance;
}

std::string Noise::why_unstable() const {
  std::vector<double> moved;
  for (const auto& [tensor, distance] : distances) {
    if (tensor.first == Compared::gradient) moved.push_back(distance);
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
