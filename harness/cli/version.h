#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// What a program has of the catalogue.
struct CatalogueVersion {
  std::optional<std::string> torch;  ///< the release that it was built with; absent: see `lacks`
  std::string lacks =
      {};  ///< "no catalogue", "a catalogue that cannot be started"; empty with torch
  std::string fault = {};  ///< why it cannot be started, in a sentence; empty: nothing is wrong
};

/// "lockstep 0.1.0, torch 2.11.0+cpu\n"
std::string version_as_text(const CatalogueVersion& catalogue);

/// The answer to `--version --json` (docs/formats.md), a line.
std::string version_as_json(const CatalogueVersion& catalogue);

}  // namespace lockstep
