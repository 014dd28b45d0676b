#pragma once

#include <map>
#include <string>
#include <tuple>

#include "harness/judge/judge.h"

namespace lockstep {

/// A tensor at a claim's point: step, micro-batch, name.
using TensorKey = std::tuple<std::int64_t, std::int64_t, std::string>;

TensorKey key_of(const Observation& observation);

/// Whether values of this type carry roundings: floating or complex.
bool is_inexact(const std::string& dtype);

/// What `equal_reference` allows a tensor; 0 for types without roundings.
struct Tolerance {
  double value = 0;  ///< relative to all tensors of the kind in that step
  std::string from;  ///< in words
};

/// What the reference holds of the tensors that a claim is about, and how far its perturbed copies
/// moved them.
class ExpectedValues {
 public:
  /// `reference`: rank 0 is the reference, the others its perturbed copies. It outlives this.
  ExpectedValues(const Evidence& reference, const Claim& claim, int world_size);

  /// By step, micro-batch and name. What the reference notes of one rank alone is not among them.
  const std::map<TensorKey, const Observation*>& tensors() const { return tensors_; }

  /// The reference's observation of the same tensor; null when it has none.
  const Observation* find(const Observation& actual) const;

  /// L2 norm of all tensors of the kind in `step` that are of a floating or complex type: counters
  /// beside them would drown them.
  double norm(std::int64_t step) const;

  Tolerance tolerance(const Observation& actual) const;

 private:
  void note_moves(const Evidence& reference, int rank, const Claim& claim);

  std::map<TensorKey, const Observation*> tensors_;
  std::map<std::int64_t, long double> squared_norms_;  ///< by step; no double overflows squared
  std::map<TensorKey, double> moved_;                  ///< norm, by the worst perturbed copy
  int perturbed_ = 0;                                  ///< number of perturbed copies
  bool has_moved_ = false;                             ///< any copy moved any tensor
  int world_size_ = 0;
};

}  // namespace lockstep
