#pragma once

#include <chrono>
#include <string>

#include "harness/launch/capability.h"

namespace lockstep {

/// What doctor says, section by section: the label of a section stands before its first line only.
class DoctorSheet {
 public:
  void begin(const std::string& label) { label_ = label; }
  void say(const std::string& sentence);
  void say(const Capability& capability);

  /// For what is missing, below what says so.
  void advise(const std::string& remedy);

  void conclude(const std::string& sentence);

  const std::string& text() const { return text_; }

 private:
  std::string label_;
  std::string text_;
};

/// GPUs, launchers, the Python on PATH with its torch, who started this process, and what the
/// machine gives ranks. `limit`: how long each that is asked may take to answer.
void say_machine(DoctorSheet& sheet, std::chrono::milliseconds limit);

/// Why two ranks cannot be run, by what `run` checks as well; empty where nothing is known against
/// it.
std::string fault_of_machine();

/// The conclusion where the ranks of `run` could not work: "'lockstep run' cannot work here: ...".
std::string run_cannot_work(const std::string& problem);

}  // namespace lockstep
