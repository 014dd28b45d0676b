#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "harness/pack/pack_label.h"
#include "harness/pack/scratch_folder.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// A run that a command line names: its folder, its `record.json`, or a pack. Of a pack, the files
/// of ranks in the folders that its record names are unpacked, into a folder that is removed with
/// this object.
class OpenedRun {
 public:
  /// Throws Error (usage) for a file that is no pack of Lockstep, or is damaged.
  explicit OpenedRun(const std::string& named);

  const std::filesystem::path& folder() const { return folder_; }

  /// The place to show to users: the folder, or the pack.
  const std::filesystem::path& shown() const { return shown_; }

  /// Its record. Throws Error (usage), which names the pack and not the folder that is removed.
  RunRecord record() const;

  /// Whether it has the files of its ranks. Without them its stored results are all there is.
  bool has_files() const;

 private:
  std::optional<ScratchFolder> scratch_;
  std::filesystem::path folder_;
  std::filesystem::path shown_;
  std::optional<PackLabel> label_;
};

}  // namespace lockstep
