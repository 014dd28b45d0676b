#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// A program with scenarios, linked with torch.
struct CatalogueProgram {
  std::filesystem::path path;
  std::string lockstep_version;  ///< it was built with this Lockstep
  std::string torch_version;     ///< it was built against this torch
  std::filesystem::path torch_library;
};

/// The path of this program's catalogue: LOCKSTEP_CATALOGUE, or, if that is unset or empty,
/// `libexec/lockstep/lockstep-catalogue` in the prefix of this program.
std::filesystem::path catalogue_path();

/// Whether that file exists or LOCKSTEP_CATALOGUE asks for it.
bool is_catalogue_expected();

/// Reads the mark in the file and starts nothing. Throws Error (unmet) if the file is missing,
/// cannot be started, is no such program or one of another version, or if its torch cannot be read.
CatalogueProgram find_catalogue();

/// Replaces this process by that program, with the same arguments, environment (but for
/// `kStartVariables`) and open files.
/// Throws Error like `find_catalogue`, and Error (usage) if the current folder was removed: then
/// torch's libraries end a process silently.
[[noreturn]] void become_catalogue(char* const* arguments);

}  // namespace lockstep
