#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record/execution.h"

namespace lockstep {

/// The list of the files that the processes of an execution left in its folder: `manifest.csv`.
std::filesystem::path manifest_file(const std::filesystem::path& folder);

/// Writes the list, once all processes have ended: of each file the rank, the bytes and their
/// digest, of a journal its rows and steps, too. `identity`: of the execution. Returns what the
/// record keeps of it. Throws Error (usage) where a file cannot be read or the list not be written.
ManifestSeal write_manifest(const std::filesystem::path& folder, int processes,
                            std::string_view identity);

/// Compares the list with what the record kept of it, and each file with the list. Returns what
/// does not fit, a sentence each; snapshots and indices may have been deleted. `meter` hears how
/// many bytes of journals were read since its last call; empty: nobody listens. Throws Error
/// (usage) where a file cannot be read.
std::vector<std::string> manifest_faults(
    const std::filesystem::path& folder, int processes, std::string_view identity,
    const ManifestSeal& seal, const std::function<void(std::uint64_t bytes)>& meter = {});

}  // namespace lockstep
