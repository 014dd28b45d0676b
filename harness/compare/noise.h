#pragma once

#include <map>
#include <string>
#include <utility>

#include "harness/compare/bound.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// Runs may be so many times as far apart as two repetitions: other layouts round in other places.
inline constexpr double kOfNoise = 10;

/// So many perturbations tell how far rounding moves a tensor: runs may be `kOfPerturbations` times
/// as far apart as the largest of them, and beyond `kOfNoise` times they differ.
inline constexpr int kFewestPerturbations = 3;
inline constexpr double kOfPerturbations = 3;

/// Perturbations whose tolerances are larger parts of the norm hide any fault.
inline constexpr double kMostOfPerturbations = 0.1;

/// The largest relative distance of two tensors.
struct NoiseOfTensor {
  double whole = 0;
  double multiple = 0;  ///< along the tensor's own direction, which rounding hardly moves
};

/// How far runs are apart that do the same: the largest distances up to a step.
struct Noise {
  std::map<std::pair<Compared, std::string>, NoiseOfTensor> distances;  ///< by quantity and tensor
  bool is_perturbed = false;  ///< by at least `kFewestPerturbations` runs with perturbed weights
  double weights_apart = 0;   ///< the largest distance of all parameters before a step

  /// Whether any two had other bits. If not, they say nothing about layouts that round otherwise.
  bool moves() const;

  /// `bound`, or further if runs that do the same are further apart. Perturbations show that
  /// tensors beyond their limits differ by more than rounding; repetitions show nothing of layouts.
  Bound widened(Bound bound, Compared quantity, const std::string& name) const;

  /// That of runs whose parameters before a step are `apart`, if that is further: a difference of
  /// parameters comes back in proportion. For optimizers that round by themselves, which perturbed
  /// weights do not show.
  Noise of_weights_apart(double apart) const;

  /// Adds the distance of two runs in a tensor.
  void add(const TensorDifference& difference);

  /// Why faults cannot be told from rounding any more: perturbations move most gradients as far.
  /// Single ones may be noise by themselves, such as those that are 0 up to rounding. Empty: they
  /// can, or there are not enough perturbations.
  std::string why_unstable() const;
};

}  // namespace lockstep
