#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/record/digest.h"
#include "harness/record/interned.h"
#include "harness/record/statistics.h"
#include "reports/record/claim.h"

namespace lockstep {

/// One number for each dimension.
using Shape = std::vector<std::int64_t>;

/// The step-independent part of a journal row: one tensor as a rank holds it in one phase.
/// `global_shape`, `offset` and `local_shape` have one entry per dimension. A whole tensor has
/// offset 0 everywhere and equal shapes.
struct ObservedTensor {
  Phase phase = Phase::pre_forward;
  Kind kind = Kind::parameter;
  Interned<std::string> name;
  Interned<std::string> dtype;  ///< torch's name: "float32"; empty: the tensor is undefined
  Interned<Shape> global_shape;
  Interned<Shape> offset;
  Interned<Shape> local_shape;
  Interned<std::string> replica_group;  ///< ranks of the same group hold copies; empty: all ranks
  /// Its value is a summand: those of the other groups at the same place are added to it.
  bool is_summand = false;
  Interned<std::string>
      not_comparable;  ///< why the digest is missing ("sparse layout"); empty: present

  auto operator<=>(const ObservedTensor&) const = default;
  bool operator==(const ObservedTensor&) const = default;
};

/// One row of a journal: one tensor in one phase of one step on one rank.
struct Observation : ObservedTensor {
  std::int64_t seq = 0;          ///< from 0 in the order of execution, without gaps
  std::int64_t step = 0;         ///< from 1
  std::int64_t micro_batch = 0;  ///< from 0
  Digest digest;
  Statistics statistics;

  bool operator==(const Observation&) const = default;
};

/// The replica group of a tensor that only `rank` holds: a shard, or in the reference the result of
/// that rank's data alone.
std::string group_of_one(int rank);

}  // namespace lockstep
