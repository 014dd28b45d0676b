#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/collective_log.h"
#include "harness/record/journal.h"
#include "harness/record/kept_values.h"
#include "reports/run_record.h"

namespace lockstep {

/// What one cell left on disk, as the judge sees it: observations and values, no role, no
/// expectation.
class Evidence {
 public:
  /// Reads the journals and kept values of `processes` ranks in `folder`, and holds the kept values
  /// against the fingerprints in the journals. A rank without a journal has an empty one. Throws
  /// Error (usage) for a malformed file, and where journal and kept values contradict each other.
  Evidence(std::filesystem::path folder, int processes);

  int processes() const { return static_cast<int>(journals_.size()); }
  const std::vector<Observation>& observations(int rank) const;

  /// The collectives of `rank`, in the order of its calls; null where it left no log. Valid as long
  /// as this.
  const std::vector<Collective>* collectives(int rank) const;

  /// The value kept for an observation of `rank`; null when none was kept. Valid as long as this.
  const KeptTensor* kept(int rank, const Observation& observation) const;

  /// "rank 1: the last row of its journal was torn and left out", "rank 1: the values that it kept
  /// in step 3 are missing".
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  using Tensors = std::map<std::string, KeptTensor>;

  void read_journal_of(int rank);
  void read_kept_values_of(int rank);
  void read_collectives_of(int rank);

  std::filesystem::path folder_;
  std::vector<Journal> journals_;
  std::vector<std::optional<std::vector<Collective>>> collectives_;
  std::vector<std::string> notes_;
  std::map<std::pair<int, std::int64_t>, Tensors> kept_;  ///< by rank and step
};

}  // namespace lockstep
