#include "harness/pack/pack_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "harness/job/attempts.h"
#include "harness/job/going_on.h"
#include "harness/pack/archive.h"
#include "harness/pack/masked_record.h"
#include "harness/pack/redaction.h"
#include "harness/pack/scratch_folder.h"
#include "harness/pack/stage.h"
#include "harness/record/manifest.h"
#include "harness/record/process_identity.h"
#include "harness/record/run_folder.h"
#include "harness/record/whole_file.h"
#include "reports/base/usage_error.h"
#include "reports/record/json.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// Calls `work` with every cell and job that has files, and with the identity of its files.
template <class Work>
void for_each_execution(RunRecord& run, const Work& work) {
  for (CellRecord& cell : run.cells) {
    if (cell.processes > 0) work(cell, execution_identity(cell.cell));
  }
  for_each_attempt(run.jobs, [&](JobRecord& job) {
    if (job.processes > 0) work(job, execution_identity(job));
  });
}

void require_ended(const RunRecord& run, const fs::path& folder) {
  const std::string why = why_going_on(run, folder);
  if (!why.empty()) throw unpackable(folder.string(), why, "Wait until it has ended");
}

void require_own_files(RunRecord& run, const fs::path& folder) {
  for_each_execution(run, [&](const Execution& execution, const std::string& identity) {
    if (!execution.manifest) return;
    const auto faults = manifest_faults(folder / execution.folder, execution.processes, identity,
                                        *execution.manifest);
    if (faults.empty()) return;
    throw unpackable(folder.string(), faults.front(),
                     "The seal of a pack would hide that: pack the findings alone, with "
                     "--findings-only");
  });
}

void require_request(const PackRequest& request, const RunRecord& run) {
  if (request.contents == PackContents::findings && !is_judged(run)) {
    throw unpackable(request.run.string(), "it was never judged, so its record has no findings",
                     "Pack its files, too: leave out --findings-only");
  }
  const auto label = read_label(request.run);
  if (label && label->contents == PackContents::findings &&
      request.contents == PackContents::files) {
    throw unpackable(request.run.string(), "it was unpacked from a pack without the files of ranks",
                     "Pack its findings alone, with --findings-only");
  }
  if (!request.redact.empty() && !run.cells.empty()) {
    throw unpackable(request.run.string(),
                     "it has cells of scenarios, whose expectations name their tensors",
                     "Leave out --redact, which is for watched jobs");
  }
}

/// "train" of "runs/train/" or of a link to it.
std::string name_of(const fs::path& folder) {
  std::error_code failure;
  const std::string name = fs::canonical(folder, failure).filename();
  return name.empty() ? "run" : name;
}

void note_contents(const PackRequest& request, const Redaction& redaction, RunRecord& run) {
  if (request.contents == PackContents::findings) {
    run.notes.emplace_back(
        "the files were left out of this pack, so nothing was judged again: these are the results "
        "of the last judgement");
  }
  if (redaction.size() == 0) return;
  run.notes.push_back(redaction.size() == 1
                          ? "a name was replaced in this pack, by name-1"
                          : fmt::format("{} names were replaced in this pack, by name-1, name-2 "
                                        "and so on",
                                        redaction.size()));
}

/// The files of the run, sealed anew.
void stage(RunRecord& run, const fs::path& source, const fs::path& folder, Redaction& redaction) {
  for_each_attempt(run.jobs, [&](const JobRecord& job) {
    if (redaction.is_asked_for()) stage_redacted_files(job, source, folder, redaction);
  });
  for_each_execution(run, [&](Execution& execution, const std::string& identity) {
    if (!redaction.is_asked_for()) stage_files(execution, source, folder);
    if (!execution.manifest) return;
    execution.manifest = write_manifest(folder / execution.folder, execution.processes, identity);
  });
}

/// The files below a folder, relative to it, in order.
std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) files.push_back(entry.path().lexically_relative(folder));
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Learns all names before the first one is replaced.
void learn_all_names(const RunRecord& run, const fs::path& folder, Redaction& redaction) {
  if (!redaction.is_asked_for()) return;
  for_each_attempt(run.jobs, [&](const JobRecord& job) {
    learn_names_in_files(job, folder, redaction);
    learn_names(job, redaction);
  });
  for (const Comparison& comparison : run.comparisons) learn_names(comparison, redaction);
}

void mask_record(RunRecord& run, Redaction& redaction) {
  mask_machine(run);
  if (redaction.is_asked_for()) leave_out_stacks(run);
  for (JobRecord& job : run.jobs) redact(job, redaction);
  for (Comparison& comparison : run.comparisons) redact(comparison, redaction);
  run.environment.torch_version = redaction.text(run.environment.torch_version);
  for (std::string& note : run.notes) note = redaction.text(note);
}

/// The run with its ranks: the record of a job whose watch was killed lacks them.
RunRecord load_whole_record(const fs::path& folder) {
  RunRecord run = load_record(folder);
  require_ended(run, folder);
  take_up(run, folder);
  run.planned = counts_of(run);  // the claims of a job follow from its ranks
  return run;
}

}  // namespace

WrittenPack pack_run(const PackRequest& request) {
  Redaction redaction(request.redact);
  RunRecord run = load_whole_record(request.run);
  require_request(request, run);
  const std::string name = name_of(request.run);
  const fs::path file = request.out.empty() ? name + ".lockstep.tar.gz" : request.out;
  ScratchFolder scratch;
  scratch.remove_with_it(temporary_name(file));
  ArchiveWriter archive(file);
  learn_all_names(run, request.run, redaction);
  if (request.contents == PackContents::files) {
    require_own_files(run, request.run);
    stage(run, request.run, scratch.path(), redaction);
  }
  mask_record(run, redaction);
  note_contents(request, redaction, run);
  const fs::path top = name;
  archive.add_text(top / "record.json", render_json(run));
  for (const std::string& staged : files_below(scratch.path())) {
    archive.add_file(top / staged, scratch.path() / staged);
  }
  // The last member: an archive that was cut off lacks it.
  archive.add_text(top / kPackLabel, render_label({request.contents, redaction.size()}));
  archive.finish();
  scratch.keep();
  return {file, fs::file_size(file), redaction.size()};
}

}  // namespace lockstep
