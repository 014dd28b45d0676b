#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/diff/diff_side.h"
#include "harness/diff/whole_tensors.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// The parameters of a job after a step, or the tensors of a checkpoint.
struct Weights {
  ComparedSide side;
  std::int64_t step = 0;  ///< of a job; 0: it is a checkpoint
  WholeTensors tensors;   ///< by the names in a job, or in the files of a checkpoint
};

/// Reads all tensors of a checkpoint, block by block. `shown`: its path as users know it. Throws
/// Error (usage).
Weights weights_of_checkpoint(const std::filesystem::path& path, const std::string& shown);

/// The parameters of a job after `step`; 0: the last that it observed. Throws Error (usage) if the
/// job did not observe them.
Weights weights_of_job(const SideFiles& files, std::int64_t step);

/// How weights are compared.
struct WeightsRequest {
  NameMap names;                 ///< of A's tensors in B
  bool are_same_values = false;  ///< both sides should be equal but for rounding
  bool may_lack = false;         ///< a tensor that only one side has is no finding
};

/// Compares weights of B with those of A: of two checkpoints element by element, else by sketches.
///
/// Two checkpoints are apart by rounding if each element of one is a nearest number to that of the
/// other, in another type, or if no element is further than one unit in the last place. With
/// `are_same_values` the latter is different. A job and a checkpoint are apart by rounding if they
/// are not further apart than a copy in the coarser type. `noise` are repetitions of either, and 10
/// times the distance from the nearer side counts as rounding, too. A larger distance is undecided,
/// because trainings drift apart, unless repetitions say how far, or `are_same_values`.
///
/// A tensor that only one of two checkpoints has is different, and so is a parameter of a job that
/// the checkpoint lacks, but not what the job lacks: it has no buffers. Throws Error (usage) if a
/// file cannot be read any more.
ComparedPair diff_weights(Weights a, Weights b, std::vector<Weights> noise,
                          const WeightsRequest& request);

/// The largest relative L2 distance of a copy that was rounded to the coarser dtype of both.
/// Rounding to nearest moves an element by at most u of its size, the unit roundoff, or by half of
/// the smallest subnormal number.
double copy_bound(const WholeTensor& a, const WholeTensor& b);

}  // namespace lockstep
