#pragma once

#include <filesystem>

namespace lockstep {

/// `relative` ("share/lockstep/published") in the prefix that this program is in, as a build or an
/// installation has it: in `bin`, or in `libexec/lockstep`. `otherwise` where it is in neither.
std::filesystem::path installed_path(const std::filesystem::path& relative,
                                     const std::filesystem::path& otherwise);

/// The same for a program at `program`.
std::filesystem::path installed_path(const std::filesystem::path& program,
                                     const std::filesystem::path& relative,
                                     const std::filesystem::path& otherwise);

}  // namespace lockstep
