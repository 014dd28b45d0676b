#pragma once

#include <string>

#include "harness/pack/redaction.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Removes from a record what it says of the machine and of command lines: the host, environment
/// variables, and of each command line everything but the program.
void mask_machine(RunRecord& run);

/// Learns the names in the texts of a job: of tensors, groups and sources.
void learn_names(const JobRecord& job, Redaction& redaction);

void learn_names(const Comparison& comparison, Redaction& redaction);

/// Leaves out the stacks of ranks: reports show one place of each.
void leave_out_stacks(RunRecord& run);

/// Replaces names in all texts of a job or comparison.
void redact(JobRecord& job, Redaction& redaction);
void redact(Comparison& comparison, Redaction& redaction);

/// Learns the names in "load_next_batch, train.py:22" or in "train.py:22": a function and a file.
void learn_place(const std::string& place, Redaction& redaction);

}  // namespace lockstep
