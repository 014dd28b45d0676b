#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// A program with scenarios, linked with torch.
struct CatalogueProgram {
  std::filesystem::path path;
  std::string lockstep_version;         ///< it was built with this Lockstep
  std::string torch_version;            ///< it was built against this torch
  std::filesystem::path torch_library;  ///< the one that it will load
  bool is_torch_elsewhere = false;      ///< not where the loader looks for it
};

/// The path of this program's catalogue: LOCKSTEP_CATALOGUE, or, if that is unset or empty,
/// `libexec/lockstep/lockstep-catalogue` in the prefix of this program.
std::filesystem::path catalogue_path();

/// Whether that file exists or LOCKSTEP_CATALOGUE asks for it.
bool is_catalogue_expected();

/// "2.11" of "2.11.0+cu130": programs that were built with one patch of a release run with the
/// others.
std::string torch_release(const std::string& version);

/// Reads the mark in the file and starts nothing. The catalogue of a wheel has the torch in the
/// folder LOCKSTEP_TORCH_FOLDER, which the Python that starts `lockstep` sets to its own torch, or
/// the one next to the package. Throws Error (unmet) if the file is missing, cannot be started, is
/// no such program or one of another version, or if its torch cannot be read or is of another
/// release (major and minor).
CatalogueProgram find_catalogue();

/// For a program whose torch is elsewhere: sets LD_LIBRARY_PATH for the processes that this one
/// starts.
void let_loader_find_torch(const CatalogueProgram& catalogue);

/// Replaces this process by that program, with the same arguments, environment (but for
/// `kStartVariables`, and LD_LIBRARY_PATH if its torch is elsewhere) and open files.
/// Throws Error like `find_catalogue`, and Error (usage) if the current folder was removed: then
/// torch's libraries end a process silently.
[[noreturn]] void become_catalogue(char* const* arguments);

}  // namespace lockstep
