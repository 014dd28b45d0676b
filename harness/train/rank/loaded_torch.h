#pragma once

#include <string>

namespace lockstep {

/// The torch loaded by this process.
struct LoadedTorch {
  std::string file;     ///< path of libtorch_cpu.so
  std::string version;  ///< "2.11.0", as the library reports it; empty: unknown
};

/// Asks the loader and the library; runs no torch operation.
LoadedTorch loaded_torch();

}  // namespace lockstep
