#pragma once

#include <filesystem>
#include <string>

#include "reports/base/private_files.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// In the folder of a job's run: the run of its repetition `number`, from 1 (`lockstep watch
/// --repeat` and `--perturb`).
std::filesystem::path repetition_folder(const std::filesystem::path& run, int number);

/// Current time in the format of records: "2026-11-20T18:52:46Z".
std::string utc_now();

/// Creates the folder of a new run, with `record.json` of `run` in it, and returns it. If `asked`
/// is empty, the folder is `runs/<utc>`, and `runs/latest` points to it. Otherwise it is `asked`,
/// which must be missing or empty. If several processes ask for one folder at the same time, one
/// gets it. It is for `readers` alone. Throws Error (usage) when the folder is a file, is not empty
/// or cannot be written, and when `runs/latest` is not a link.
std::filesystem::path make_run_folder(const std::string& asked, const RunRecord& run,
                                      Readers readers = Readers::owner);

/// If the run that `runs/latest` points to is gone, points it to `newest`, or removes it if that is
/// empty. Returns whether it did. Throws Error (usage) when it cannot.
bool mend_latest(const std::filesystem::path& runs, const std::filesystem::path& newest);

/// Saves the first record of a run in `folder`. Throws Error (usage) when there already is one.
void save_new_record(const std::filesystem::path& folder, const RunRecord& run);

/// Creates `folder` and its missing parents, inside a run's folder as readable as that. Throws
/// Error (usage).
void make_folders(const std::filesystem::path& folder);

/// Saves the record of a run as `record.json` in its folder.
void save_record(const std::filesystem::path& folder, const RunRecord& run);

/// The folder of the run that the command line names: `named`, or its folder if it is a
/// `record.json`.
std::filesystem::path run_folder_of(const std::string& named);

/// Reads the record of the run in `folder`. Throws Error (usage) when there is none.
RunRecord load_record(const std::filesystem::path& folder);

}  // namespace lockstep
