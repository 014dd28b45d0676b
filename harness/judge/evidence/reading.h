#pragma once

#include <cstdint>
#include <functional>

#include "harness/record/journal.h"

namespace lockstep {

/// How the files of a run are read.
struct Reading {
  IndexUse index = IndexUse::believed;
  /// Hears how many bytes of journals were dealt with since its last call: each journal once when
  /// its steps are found, and once more step by step when they are judged. Empty: nobody listens.
  std::function<void(std::uint64_t bytes)> meter = {};
};

}  // namespace lockstep
