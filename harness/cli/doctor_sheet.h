#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "harness/launch/capability.h"

namespace lockstep {

/// What doctor says: its conclusion, and what it found, section by section. The label of a section
/// stands before its first line only.
class DoctorSheet {
 public:
  void begin(const std::string& label) { label_ = label; }
  void say(const std::string& sentence);
  void say(const Capability& capability);

  /// For what is missing, below what says so.
  void advise(const std::string& remedy);

  /// The same where a line for the shell helps: it is never broken.
  void advise_command(const std::string& command);

  void conclude(const std::string& sentence);

  const std::string& conclusion() const { return conclusion_; }
  const std::string& findings() const { return findings_; }

  /// The conclusion, an empty line, what was found.
  std::string text() const { return conclusion_ + "\n" + findings_; }

 private:
  std::string label_;
  std::string conclusion_;
  std::string findings_;
};

/// GPUs, launchers, the Python on PATH with its torch, who started this process, and what the
/// machine gives ranks. `limit`: how long each that is asked may take to answer. `torch_library`:
/// of the catalogue, beside which torchrun may be; empty: not known.
void say_machine(DoctorSheet& sheet, std::chrono::milliseconds limit,
                 const std::filesystem::path& torch_library);

/// Why two ranks cannot be run, by what `run` checks as well; empty where nothing is known against
/// it.
std::string fault_of_machine();

/// The conclusion where the ranks of `run` could not work: "'lockstep run' cannot work here: ...".
std::string run_cannot_work(const std::string& problem);

}  // namespace lockstep
