#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "harness/record/journal.h"
#include "tests/record/whole_journal.h"

namespace lockstep {

/// Digests by step and name.
using Gradients = std::map<std::pair<std::int64_t, std::string>, Digest>;

/// Gradients that a rank passed to its optimizer, by its journal.
inline Gradients gradients_of(const std::filesystem::path& journal) {
  Gradients found;
  for (const Observation& row : read_journal(journal).observations) {
    if (row.kind != Kind::gradient || row.phase != Phase::pre_step) continue;
    found[{row.step, row.name}] = row.digest;
  }
  return found;
}

}  // namespace lockstep
