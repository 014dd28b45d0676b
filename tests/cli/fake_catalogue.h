#pragma once

#include <filesystem>
#include <string>

#include "tests/command.h"

namespace lockstep {

inline const std::string kLockstep = LOCKSTEP_PROGRAM;

/// The mark of a catalogue program.
inline std::string mark_of(const std::string& version, const std::filesystem::path& library) {
  return "# lockstep catalogue mark\nlockstep=" + version +
         "\ntorch=2.11.0+fake\nlibrary=" + library.string() + "\n" + std::string(1, '\0');
}

/// A shell script that passes for a catalogue program, with a file for its torch.
class FakeCatalogue {
 public:
  explicit FakeCatalogue(const std::string& script, const std::string& version = LOCKSTEP_VERSION) {
    std::filesystem::create_directories(torch().parent_path());
    write_text(torch(), "");
    write(script, mark_of(version, torch()));
  }

  /// A complete script, which need not have a mark.
  void write(const std::string& script, const std::string& mark) const {
    write_text(path(), "#!/bin/sh\n" + script + "\nexit\n" + mark);
    std::filesystem::permissions(path(), std::filesystem::perms(0755));
  }

  std::filesystem::path path() const { return folder_.path() / "catalogue"; }
  std::filesystem::path torch() const { return folder_.path() / "torch/lib/libtorch_cpu.so"; }
  std::filesystem::path version_of_torch() const { return folder_.path() / "torch/version.py"; }

  /// Runs `lockstep` with it as its catalogue. `before`: shell commands that run first.
  Outcome lockstep(const std::string& arguments, const std::string& before = "") const {
    return run_shell(before + " LOCKSTEP_CATALOGUE=" + path().string() + " " + kLockstep + " " +
                     arguments);
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace lockstep
