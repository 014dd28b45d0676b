#pragma once

#include <sys/types.h>

#include <filesystem>

namespace lockstep {

/// Who may read the files of a run.
///   owner   the user who ran it: folders have the mode 0700 and files 0600
///   group   the group, too: 0750 and 0640
/// A stricter umask makes them stricter.
enum class Readers { owner, group };

/// The mode of a run's folder.
mode_t mode_of_run_folder(Readers readers);

/// Makes the folder of a run, and missing folders above it with the usual mode. A folder that
/// exists, and that others may enter, is closed to them; one that is stricter than `readers` stays.
/// Throws Error (usage).
void make_private_folder(const std::filesystem::path& folder, Readers readers);

/// Of a new file: 0640 in a folder that its group may read and others may not, which is that of a
/// run for `Readers::group`; else 0600. So every process that writes into a run agrees, whoever
/// started it.
mode_t mode_of_new_file(const std::filesystem::path& file);

/// Of a new folder: 0750 and 0700 by the same rule, and the usual mode in a folder that others may
/// enter.
mode_t mode_of_new_folder(const std::filesystem::path& folder);

}  // namespace lockstep
