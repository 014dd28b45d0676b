#pragma once

#include <filesystem>

namespace lockstep {

/// The prefix of a program that is in `bin` or in `libexec/lockstep` of one, in a build tree or an
/// installation; empty for others. The folder above those may be anybody's, or the working folder.
std::filesystem::path prefix_of(const std::filesystem::path& program);

/// `relative` ("share/lockstep/published") in the prefix of this program. Returns `otherwise` if
/// there is no such file, or no prefix.
std::filesystem::path installed_path(const std::filesystem::path& relative,
                                     const std::filesystem::path& otherwise);

/// The same for a program at `program`.
std::filesystem::path installed_path(const std::filesystem::path& program,
                                     const std::filesystem::path& relative,
                                     const std::filesystem::path& otherwise);

}  // namespace lockstep
