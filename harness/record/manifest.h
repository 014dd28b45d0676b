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

/// Writes the list after all processes have ended. Each file has its rank, size and digest; a
/// journal also has its rows and steps. `identity` names the execution. Returns the seal that the
/// record stores. Throws Error (usage) if a file cannot be read or the list cannot be written.
ManifestSeal write_manifest(const std::filesystem::path& folder, int processes,
                            std::string_view identity);

/// Compares the list with its seal in the record, and each file with the list. Returns one sentence
/// per mismatch; snapshots, sketches and indices may have been deleted. `meter` receives the
/// journal bytes read since its last call; it may be empty. Throws Error (usage) if a file cannot
/// be read.
std::vector<std::string> manifest_faults(
    const std::filesystem::path& folder, int processes, std::string_view identity,
    const ManifestSeal& seal, const std::function<void(std::uint64_t bytes)>& meter = {});

}  // namespace lockstep
