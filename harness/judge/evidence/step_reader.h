#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge/evidence/reading.h"
#include "harness/judge/evidence/step_view.h"
#include "harness/record/collective_log.h"
#include "harness/record/journal.h"
#include "harness/record/list_digest.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Who has to have written the files of a folder.
struct Writers {
  std::vector<std::string> identities;  ///< `process_identity` of each rank; empty: it is not asked
  bool must_sign = false;               ///< a file that does not say who wrote it is refused
  bool may_be_silent = false;           ///< a rank may end by itself and leave no journal
};

/// What one cell left on disk, read step by step: observations and values, no role, no expectation.
/// In memory are the steps that were read last, and where the others are.
class StepReader {
 public:
  /// Reads the journals of `processes` ranks in `folder` for where their steps are, and their
  /// collective logs. A rank without a journal has an empty one. Throws Error (usage) for a
  /// malformed file, for one that another process wrote, and for snapshots of a step that the
  /// journal does not have.
  StepReader(std::filesystem::path folder, int processes, Writers writers = {},
             Reading reading = {});

  int processes() const { return static_cast<int>(journals_.size()); }

  /// All steps in which a rank observed something, ascending.
  const std::vector<std::int64_t>& steps() const { return steps_; }

  /// What all ranks observed in a step; nothing where it is none of `steps()`. Compares snapshots
  /// with the digests in the journals. Throws Error (usage) for a malformed file, for one that
  /// another process wrote, and where journal and snapshots contradict each other; StaleIndex where
  /// rows and index do.
  std::shared_ptr<const StepView> at(std::int64_t step) const;

  /// The digest of which rank observed what in a step, where the ranks of each replica group hold
  /// the same bits of all of it; nothing where some do not. Reads no row.
  std::optional<Digest> agreed_set(std::int64_t step) const;

  /// "elements that are not finite were observed, first in step 3 on ranks 0,1"; empty where there
  /// are none. Reads no row.
  std::string non_finite_in_words() const;

  /// Why indices were not believed, by journal: "rank-1.csv: ...".
  const std::vector<std::string>& index_faults() const { return index_faults_; }

  /// Whether a step has to be read whatever the indices say: where all are, and where snapshots are
  /// to be compared with its rows.
  bool must_read(std::int64_t step) const {
    return reading_.index != IndexUse::believed || snapshot_steps_.contains(step);
  }

  /// Says that a step has been judged, read or not.
  void note_judged(std::int64_t step) const;

  /// Lets go of the steps that were read.
  void forget_steps() const { views_.clear(); }

  /// Every tensor that was observed in any step, with the ranks that did, ascending.
  const std::map<ObservedTensor, std::vector<int>>& tensors() const { return tensors_; }

  /// The collectives of `rank`, in the order of its calls; null where it left no log. Valid as long
  /// as this.
  const std::vector<Collective>* collectives(int rank) const;

  /// Whole rows in the journal of `rank`.
  std::int64_t rows(int rank) const;

  /// The last step in which `rank` observed something; 0: none.
  std::int64_t last_step(int rank) const;

  /// Rows that `rank` wrote: one more than were observed where the last was torn.
  std::int64_t rows_written(int rank) const;

  /// The definition of the digests in all journals; empty where there is no journal.
  const std::string& digest() const { return digest_; }

  /// Whether every file that was read says who wrote it. Those of records before 1.4 do not, and an
  /// exchange of two ranks' files would not be seen.
  bool is_signed() const { return is_signed_; }

  /// "rank 1: snapshots of steps 3, 6 to 316911 are missing"; empty where none is. `was_ended`: the
  /// rank's process was ended, so that none is expected of its last step.
  std::string missing_snapshots(int rank, bool was_ended) const;

  /// "rank 1: the last row of its journal was torn and left out".
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  using Snapshots = std::vector<std::set<std::int64_t>>;  ///< their steps, by rank

  /// What the ranks that were opened hold in a step.
  struct Together {
    ListDigest set;
    bool agrees = true;
    std::uint64_t bytes = 0;
    std::vector<int> non_finite;                   ///< ranks
    std::map<Digest, StepSummary::Phases> groups;  ///< of the first rank of each

    void add(int rank, const StepSummary& summary);
  };

  bool open_journal(int rank);
  void note_journal(int rank);
  void read_collectives_of(int rank);
  void find_snapshots();
  const JournalStep* step_of(int rank, std::int64_t step) const;
  bool read(int rank, const JournalStep& step, StepView::Rank& view) const;
  void require_same_digest(const JournalReader& journal);
  bool is_written_by(int rank, const std::string& found, const std::filesystem::path& file) const;

  std::filesystem::path folder_;
  Writers writers_;
  Reading reading_;
  mutable bool is_signed_ = true;
  std::string digest_;
  std::vector<std::optional<JournalReader>> journals_;  ///< nothing where there is none
  std::vector<std::int64_t> steps_;
  std::map<std::int64_t, Together> together_;  ///< by step
  std::vector<std::string> index_faults_;
  std::map<ObservedTensor, std::vector<int>> tensors_;
  std::vector<std::optional<std::vector<Collective>>> collectives_;
  Snapshots snapshots_;
  std::set<std::int64_t> snapshot_steps_;  ///< of any rank
  std::vector<std::string> notes_;
  mutable std::deque<std::shared_ptr<const StepView>> views_;  ///< read last, the latest in front
};

}  // namespace lockstep
