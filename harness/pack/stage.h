#pragma once

#include <filesystem>

#include "harness/pack/redaction.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Puts the files of an execution that a pack holds into `folder`, as links to those in `source`,
/// the folder of its run. A rank's output and the exits that launchers wrote stay behind: a report
/// does not need them. Throws Error (usage) for a link, which may lead out of the run.
void stage_files(const Execution& execution, const std::filesystem::path& source,
                 const std::filesystem::path& folder);

/// Learns the names in the files of a job: its tensor tables, its collective logs, its last stall.
/// Throws Error (usage) if one cannot be read.
void learn_names_in_files(const JobRecord& job, const std::filesystem::path& source,
                          Redaction& redaction);

/// The same as `stage_files` with other names. Tensor tables, snapshots and collective logs are
/// written anew, and so are the indices, which contain digests of names; journals and sketches have
/// no names. Texts that only people read stay behind: the stacks of threads, the status and the
/// facts of ranks. Throws Error (usage), also if an index does not fit its journal: the fault would
/// be lost.
void stage_redacted_files(const JobRecord& job, const std::filesystem::path& source,
                          const std::filesystem::path& folder, Redaction& redaction);

}  // namespace lockstep
