#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/pack/pack_label.h"

namespace lockstep {

/// Options of `lockstep pack`.
struct PackRequest {
  std::filesystem::path run;                    ///< the folder of the run
  std::string out;                              ///< the file; empty: named after the folder
  PackContents contents = PackContents::files;  ///< what it holds
  std::vector<std::string> redact;              ///< expressions; names that match are replaced
};

/// A pack that was written.
struct WrittenPack {
  std::filesystem::path file;
  std::uint64_t bytes = 0;       ///< of the file
  std::size_t masked_names = 0;  ///< replaced by pseudonyms
};

/// Packs a run in one file, without the host, the environment variables and the arguments of its
/// commands. Its files get a new seal. Throws Error (usage)
///   - if the file exists or cannot be written, or the run cannot be read;
///   - if the run may still write its files;
///   - if its files are not those that its ranks wrote: a new seal would hide that;
///   - for findings alone, if it was never judged;
///   - if names are to be replaced in the cells of a scenario, whose expectations name tensors.
WrittenPack pack_run(const PackRequest& request);

}  // namespace lockstep
