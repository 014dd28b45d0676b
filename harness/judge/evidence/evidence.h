#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/collective_log.h"
#include "harness/record/journal.h"
#include "harness/record/snapshots.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// What one cell left on disk, as the judge sees it: observations and values, no role, no
/// expectation.
class Evidence {
 public:
  /// Reads the journals, snapshots and collective logs of `processes` ranks in `folder`, and
  /// compares the snapshots with the digests in the journals. A rank without a journal has
  /// an empty one. `identities` are the `process_identity` of each rank; without them it is not
  /// asked who wrote a file. Throws Error (usage) for a malformed file, for one that another
  /// process wrote, and where journal and snapshots contradict each other.
  Evidence(std::filesystem::path folder, int processes, std::vector<std::string> identities = {});

  int processes() const { return static_cast<int>(journals_.size()); }
  const std::vector<Observation>& observations(int rank) const;

  /// The collectives of `rank`, in the order of its calls; null where it left no log. Valid as long
  /// as this.
  const std::vector<Collective>* collectives(int rank) const;

  /// The value kept for an observation of `rank`; null when none was kept. Valid as long as this.
  const SnapshotTensor* kept(int rank, const Observation& observation) const;

  /// Rows that `rank` wrote: one more than were observed where the last was torn.
  std::int64_t rows_written(int rank) const;

  /// The definition of the digests in all journals; empty where there is no journal.
  const std::string& digest() const { return digest_; }

  /// Whether every file says who wrote it. Those of records before 1.4 do not, and an exchange of
  /// two ranks' files would not be seen.
  bool is_signed() const { return is_signed_; }

  /// "rank 1: snapshots of steps 3, 6 to 316911 are missing"; empty where none is. `was_ended`: the
  /// rank's process was ended, so that none is expected of its last step.
  std::string missing_snapshots(int rank, bool was_ended) const;

  /// "rank 1: the last row of its journal was torn and left out".
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  using Tensors = std::map<std::string, SnapshotTensor>;

  void read_journal_of(int rank);
  void read_snapshot_of(int rank);
  const Tensors& read_step(int rank, std::int64_t step, const std::filesystem::path& file);
  void read_collectives_of(int rank);
  void require_same_digest(const Journal& journal, const std::filesystem::path& file);
  void require_rows_of_all_values() const;
  void require_written_by(int rank, const std::string& found, const std::filesystem::path& file);

  std::filesystem::path folder_;
  std::vector<std::string> identities_;
  bool is_signed_ = true;
  std::string digest_;
  std::vector<Journal> journals_;
  std::vector<std::optional<std::vector<Collective>>> collectives_;
  std::vector<std::string> notes_;
  std::map<std::pair<int, std::int64_t>, Tensors> kept_;  ///< by rank and step; empty: missing
  std::map<int, std::vector<std::int64_t>> missing_;      ///< steps without values, by rank
};

}  // namespace lockstep
