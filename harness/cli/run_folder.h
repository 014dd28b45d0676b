#pragma once

#include <filesystem>
#include <string>

#include "reports/run_record.h"

namespace lockstep {

/// Time as records write it: "2026-11-20T18:52:46Z".
std::string utc_now();

/// Makes the folder of a new run and returns it. With `asked` empty it is `runs/<utc>`, and
/// `runs/latest` points to it; else `asked`, which must not exist or be empty. Throws Error (usage)
/// when it is a file, is not empty or cannot be written.
std::filesystem::path make_run_folder(const std::string& asked, const std::string& utc);

/// Makes `folder` and those above it where they are missing. Throws Error (usage).
void make_folders(const std::filesystem::path& folder);

/// Saves the record of a run as `record.json` in its folder.
void save_record(const std::filesystem::path& folder, const RunRecord& run);

/// Reads the record of the run in `folder`. Throws Error (usage) when there is none.
RunRecord load_record(const std::filesystem::path& folder);

}  // namespace lockstep
