#pragma once

#include <string>
#include <vector>

#include "reports/formats/shown_findings.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// "torchrun train.py, 8 ranks".
std::string title_of(const JobRecord& job);

/// The result of a job, after its title: "in lockstep: 57 steps, 1 to 57"; "FAILED: ranks differ
/// from step 12 on: weight"; "UNDECIDED: ..."; "NOT RUN: ...".
std::string heading_of(const JobRecord& job);

/// Findings, undecided claims and notes of a job, a line each.
std::vector<std::string> lines_of(const JobRecord& job);

/// The same with the given `findings`.
std::vector<std::string> lines_of(const JobRecord& job, const std::vector<ShownFinding>& findings);

}  // namespace lockstep
