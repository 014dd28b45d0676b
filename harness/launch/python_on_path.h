#pragma once

#include <chrono>
#include <string>

namespace lockstep {

/// The Python that a job started here would have.
struct PythonOnPath {
  std::string path;     ///< empty: neither python3 nor python is on PATH
  std::string version;  ///< "Python 3.11.7"; empty where it did not say it
  std::string torch_version;
  std::string torch_folder;
  std::string problem;  ///< why its torch cannot be used; empty when it can
};

/// Has it import torch, in a process of its own that may take `limit`.
PythonOnPath find_python(std::chrono::milliseconds limit);

}  // namespace lockstep
