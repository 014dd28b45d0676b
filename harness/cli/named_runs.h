#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/job/join_machines.h"
#include "harness/pack/opened_run.h"

namespace lockstep {

/// The runs that a command line names: folders, folders that several machines share, and packs,
/// whose files are unpacked as long as this lives. Machines of one job are joined.
class NamedRuns {
 public:
  /// Throws Error (usage) for a folder or file that is no run.
  explicit NamedRuns(const std::vector<std::string>& named);

  std::vector<JoinedRun>& runs() { return runs_; }
  const std::vector<JoinedRun>& runs() const { return runs_; }

  /// The run as the command line names it: "runs/a runs/b".
  std::string shown(const JoinedRun& run) const;

  /// Whether the files of its ranks are there. A pack may hold findings alone.
  bool has_files(const JoinedRun& run) const;

 private:
  const OpenedRun& opened(const std::filesystem::path& folder) const;
  void open(const std::string& named);

  std::map<std::string, std::unique_ptr<OpenedRun>> opened_;  ///< by folder
  std::vector<JoinedRun> runs_;
};

}  // namespace lockstep
