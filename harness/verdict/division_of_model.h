#pragma once

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// What the ranks of a job hold of its model.
enum class Division {
  copies,         ///< each rank has all parameters
  parts_by_data,  ///< the parts that sharded data parallelism makes, as their groups or meshes say
  other           ///< or unknown: ranks may share samples, and hold modules of their own
};

/// A group that the training named, of another dimension than data, makes it `other`. `coverage`:
/// of the job.
Division division_of_model(const JobRecord& job, const StepReader& evidence,
                           const Coverage& coverage);

}  // namespace lockstep
