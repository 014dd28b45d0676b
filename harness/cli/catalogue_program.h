#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// A program that has scenarios, and torch with them.
struct CatalogueProgram {
  std::filesystem::path path;
  std::string lockstep_version;  ///< that it was built with
  std::string torch_version;     ///< that it was built against
  std::filesystem::path torch_library;
};

/// Where the catalogue of this program is: LOCKSTEP_CATALOGUE, or, where that is not set or empty,
/// `libexec/lockstep/lockstep-catalogue` of the prefix that this program is in.
std::filesystem::path catalogue_path();

/// Whether that is a file at all, or was asked for with LOCKSTEP_CATALOGUE.
bool is_catalogue_expected();

/// Reads what the file says of itself and starts nothing. Throws Error (unmet) where it is missing,
/// cannot be started, is no such program or one of another version, and where the torch that it
/// needs cannot be read.
CatalogueProgram find_catalogue();

/// Makes this process that program, with the same arguments, environment and open files. Throws
/// Error as `find_catalogue` does, and (usage) where the current folder was removed: libraries that
/// come with torch end a process there without a word.
[[noreturn]] void become_catalogue(char* const* arguments);

}  // namespace lockstep
