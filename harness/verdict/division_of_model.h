#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

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

/// By rank, its coordinates on the dimensions over which the job divides parameters and not
/// samples, such as "tp 1": these ranks compute together on the same samples. None: of a rank that
/// holds no such part. The dimension of experts is none of them.
using PartsOfRanks = std::map<int, std::set<std::string>>;

PartsOfRanks parts_of_ranks(const StepReader& evidence);

/// Whether each of several groups holds a part of the model of its own.
bool do_divide_model(const std::vector<std::vector<int>>& groups, const PartsOfRanks& parts);

}  // namespace lockstep
