#pragma once

#include <filesystem>

namespace lockstep {

/// `relative` ("share/lockstep/published") in the prefix of this program, in a build tree or an
/// installation. The program is in `bin` or in `libexec/lockstep`. Returns `otherwise` if it is in
/// neither.
std::filesystem::path installed_path(const std::filesystem::path& relative,
                                     const std::filesystem::path& otherwise);

/// The same for a program at `program`.
std::filesystem::path installed_path(const std::filesystem::path& program,
                                     const std::filesystem::path& relative,
                                     const std::filesystem::path& otherwise);

}  // namespace lockstep
