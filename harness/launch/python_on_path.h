#pragma once

#include <chrono>
#include <string>

namespace lockstep {

/// The Python of a job started here.
struct PythonOnPath {
  std::string path;     ///< empty: neither python3 nor python is on PATH
  std::string version;  ///< "Python 3.11.7"; empty if it did not report one
  std::string torch_version;
  std::string torch_folder;
  std::string problem;  ///< why its torch is unusable; empty if it works
};

/// Imports torch in a separate process, within `limit`.
PythonOnPath find_python(std::chrono::milliseconds limit);

/// What Python says against a regular expression; empty: nothing, or there is no Python to ask.
std::string fault_in_expression(const std::string& expression);

}  // namespace lockstep
