#pragma once

#include <cstdint>
#include <functional>

#include "harness/record/journal.h"

namespace lockstep {

/// How the files of a run are read.
struct Reading {
  IndexUse index = IndexUse::believed;
  /// Reads the sketches of every step, not only of those in which ranks differ.
  bool has_all_sketches = false;
  /// Fills `Execution::charts`. The norms of every step are read, of one rank where ranks agree.
  bool fills_charts = false;
  /// Receives the bytes of journals processed since its last call. Each journal counts twice: once
  /// when its steps are found, and again step by step when they are judged. May be empty.
  std::function<void(std::uint64_t bytes)> meter = {};
};

}  // namespace lockstep
