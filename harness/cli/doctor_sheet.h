#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "harness/launch/capability.h"

namespace lockstep {

/// The output of doctor: its conclusion, and its findings, section by section. A section's label
/// appears only before its first line.
class DoctorSheet {
 public:
  void begin(const std::string& label) { label_ = label; }
  void say(const std::string& sentence);
  void say(const Capability& capability);

  /// The remedy for a missing part, below the finding.
  void advise(const std::string& remedy);

  /// The same for a shell command, whose line is never broken.
  void advise_command(const std::string& command);

  void conclude(const std::string& sentence);

  const std::string& conclusion() const { return conclusion_; }
  const std::string& findings() const { return findings_; }

  /// The conclusion, an empty line, the findings.
  std::string text() const { return conclusion_ + "\n" + findings_; }

 private:
  std::string label_;
  std::string conclusion_;
  std::string findings_;
};

/// GPUs, launchers, the Python on PATH with its torch, the launcher of this process, and the
/// machine's resources for ranks. `limit`: time for each answer. `torch_library`: the catalogue's,
/// used to find torchrun; empty: unknown.
void say_machine(DoctorSheet& sheet, std::chrono::milliseconds limit,
                 const std::filesystem::path& torch_library);

/// Why two ranks cannot be run, by the checks that `run` makes; empty if no obstacle is known.
std::string fault_of_machine();

/// The conclusion if the ranks of `run` cannot work: "'lockstep run' cannot work here: ...".
std::string run_cannot_work(const std::string& problem);

}  // namespace lockstep
