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

#include "harness/judge/evidence/own_models.h"
#include "harness/judge/evidence/reading.h"
#include "harness/judge/evidence/step_view.h"
#include "harness/judge/evidence/tensors_of_ranks.h"
#include "harness/record/collective_log.h"
#include "harness/record/journal.h"
#include "harness/record/list_digest.h"
#include "harness/record/sketch.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// The expected writers of the files in a folder.
struct Writers {
  std::vector<std::string> identities;  ///< `process_identity` of each rank; empty: not checked
  bool may_be_silent = false;           ///< a rank may end by itself without a journal
  /// They may still write: values without a row came later than the rows that were read.
  bool may_go_on = false;
  /// The folder of each rank's files; empty: that of the reader for all.
  std::vector<std::filesystem::path> folders = {};
  /// They are ranks of a job: one may hold the model in another module (`own_models`).
  bool have_own_models = false;
  /// Collectives of ranks that have no log, by rank.
  std::map<int, std::vector<Collective>> calls = {};
};

/// Reads the files of one cell step by step: observations and values, without role or expectation.
/// It stores the most recently read steps and the file positions of the others.
class StepReader {
 public:
  /// Finds the steps in the journals of `processes` ranks in `folder` and reads their collective
  /// logs. A missing journal counts as empty. Throws Error (usage) for a malformed file, for one
  /// that another process wrote, and for snapshots of a step that is not in the journal, unless its
  /// writer may go on.
  StepReader(std::filesystem::path folder, int processes, Writers writers = {},
             Reading reading = {});

  int processes() const { return static_cast<int>(journals_.size()); }

  /// All steps with an observation on any rank, ascending. Steps without rows are not among them.
  const std::vector<std::int64_t>& steps() const { return steps_; }

  /// Steps whose rows were removed on some rank, since all ranks agreed; ascending. Only
  /// `agreed_set` and `first_non_finite_step` know them.
  const std::vector<std::int64_t>& thinned_steps() const { return thinned_steps_; }

  /// The observations of all ranks in a step; null if it is not one of `steps()`. Compares
  /// snapshots with the digests in the journals. Throws Error (usage) for a malformed file, for one
  /// that another process wrote, and if journal and snapshots contradict each other. Throws
  /// StaleIndex if rows and index do.
  std::shared_ptr<const StepView> at(std::int64_t step) const;

  /// Whether the indices tell all about the values of a step that folds of agreement and finiteness
  /// need: ranks agree, all numbers are finite, and no snapshot has to be compared.
  bool is_told_by_indices(std::int64_t step) const;

  /// Such a step without its values, which need much more memory than its tensors. Compares the
  /// rows with the indices, rank by rank, and throws as `at` does.
  StepView tensors_at(std::int64_t step) const;

  /// Compares the rows of a step with the indices, and its snapshots with the rows, and keeps
  /// nothing of them. Throws as `at` does.
  void check(std::int64_t step) const;

  /// The steps of which rows of backward passes were observed that belong to one rank alone;
  /// ascending. Reads no row.
  std::vector<std::int64_t> steps_with_passes() const;

  /// Whether `rank` observed anything in a step. Reads no row.
  bool has_observed(int rank, std::int64_t step) const { return step_of(rank, step) != nullptr; }

  /// The observations of one rank in a step; empty if there are none. They are not compared with
  /// snapshots.
  std::vector<Observation> rows_of(int rank, std::int64_t step) const;

  /// Digest of the tensors that each rank observed in a step, and of the number of their elements
  /// that are not finite, if all ranks of each replica group hold the same bits of them. Empty if
  /// some differ. Reads no row.
  std::optional<Digest> agreed_set(std::int64_t step) const;

  /// "elements that are not finite were observed, first in step 3 on ranks 0,1"; empty if all are
  /// finite. Reads no row.
  std::string non_finite_in_words() const;

  /// The first step with such elements on any rank; empty: there is none.
  std::optional<std::int64_t> first_non_finite_step() const;

  /// Why indices were rejected, by journal: "rank-1.csv: ...".
  const std::vector<std::string>& index_faults() const { return index_faults_; }

  /// Whether a step must be read regardless of the indices: if all are, or if snapshots have to be
  /// compared with its rows.
  bool must_read(std::int64_t step) const {
    return reading_.index != IndexUse::believed || snapshot_steps_.contains(step);
  }

  /// Records that a step has been judged, read or not.
  void note_judged(std::int64_t step) const;

  /// Releases the steps in memory.
  void forget_steps() const { views_.clear(); }

  /// Every tensor observed in any step, with its observing ranks, ascending.
  const TensorsOfRanks& tensors() const { return tensors_; }

  /// The collectives of `rank` in call order; null if it has no log. Valid as long as this.
  const std::vector<Collective>* collectives(int rank) const;

  /// Complete rows in the journal of `rank`, removed ones included.
  std::int64_t rows(int rank) const;

  /// Whether rows of `rank` were removed that nothing counts.
  bool misses_rows(int rank) const;

  /// The last step with an observation of `rank`; 0: none.
  std::int64_t last_step(int rank) const;

  /// Rows that `rank` wrote. A torn last row counts here, but not in `rows`.
  std::int64_t rows_written(int rank) const;

  /// "rank 1: snapshots of steps 3, 6 to 316911 are missing"; empty if none is. `was_ended`: the
  /// rank's process was ended, so its last step needs no snapshot.
  std::string missing_snapshots(int rank, bool was_ended) const;

  /// "rank 1: the last row of its journal was torn and left out".
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  using Snapshots = std::vector<std::set<std::int64_t>>;  ///< their steps, by rank

  /// State of the ranks opened so far in a step.
  struct Together {
    ListDigest set;
    bool agrees = true;
    bool is_thinned = false;
    bool has_passes = false;
    std::uint64_t bytes = 0;
    std::vector<int> non_finite;                   ///< ranks
    std::map<Digest, StepSummary::Phases> groups;  ///< of the first rank of each

    void add(int rank, const StepSummary& summary);
  };

  void open_journal(int rank);
  void note_journal(int rank);
  void note_step(int rank, const IndexedStep& step);
  void note_tensors();
  const KnownTensor* by_common_name(int rank, const KnownTensor& known) const;
  void sort_steps();
  void read_collectives_of(int rank);
  void open_sketches_of(int rank);
  using FoundSnapshots = std::vector<std::filesystem::path>;
  FoundSnapshots list_snapshots() const;
  void take_snapshots(const FoundSnapshots& files);
  const std::filesystem::path& folder_of(int rank) const;
  const JournalStep* step_of(int rank, std::int64_t step) const;
  void read(int rank, const JournalStep& step, StepView::Rank& view) const;
  void read_as_written(int rank, const JournalStep& step, StepView::Rank& view) const;
  void read_by_common_names(int rank, StepView::Rank& view) const;
  void require_writer(int rank, const std::string& found, const std::filesystem::path& file) const;

  std::filesystem::path folder_;
  Writers writers_;
  Reading reading_;
  std::shared_ptr<KnownTensors> known_ = std::make_shared<KnownTensors>();
  std::vector<std::optional<JournalReader>> journals_;  ///< empty if missing
  std::vector<std::int64_t> steps_;
  std::vector<std::int64_t> thinned_steps_;
  std::map<std::int64_t, Together> together_;  ///< by step
  std::vector<std::string> index_faults_;
  std::vector<OwnModel> models_;  ///< by rank; empty: all ranks have the same names
  TensorsOfRanks tensors_;
  std::vector<std::optional<std::vector<Collective>>> collectives_;
  std::vector<SketchReader> sketches_;  ///< by rank
  Snapshots snapshots_;
  std::set<std::int64_t> snapshot_steps_;  ///< of any rank
  std::vector<std::string> notes_;
  mutable std::deque<std::shared_ptr<const StepView>> views_;  ///< most recent first
};

}  // namespace lockstep
