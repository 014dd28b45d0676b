#pragma once

#include <filesystem>
#include <string_view>

namespace lockstep {

/// Writes a file that several processes may try to write at the same time: the first one does, and
/// the file is complete as soon as it is there. Returns whether this call wrote it. Throws Error
/// (usage).
bool write_new_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace lockstep
