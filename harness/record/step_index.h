#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/record/appended_file.h"
#include "harness/record/digest.h"
#include "harness/record/observation.h"

namespace lockstep {

/// What the rows of one step of one rank come to, whatever their order: enough to know that ranks
/// agree without reading the rows.
struct StepSummary {
  /// Digests of the rows of a replica group, by phase.
  using Phases = std::array<Digest, 4>;

  std::int64_t rows = 0;
  std::int64_t non_finite = 0;  ///< elements, of all rows
  bool has_values = false;      ///< a row is of a tensor that can be compared
  Digest tensors;               ///< of the set of what was observed, without the values
  /// By the digest of the group's name, ascending. What one rank alone holds has a group of its
  /// own.
  std::vector<std::pair<Digest, Phases>> groups;

  bool operator==(const StepSummary&) const = default;
};

/// What a tensor adds to the digests of a step: computed once a tensor.
struct TensorIdentity {
  Digest tensor;  ///< of all that it is
  Digest group;   ///< of the name of its replica group
  Phase phase = Phase::pre_forward;
  bool has_values = false;
  bool is_of_whole_numbers = false;
};

TensorIdentity identity_of(const ObservedTensor& tensor);

/// Adds a row.
void add(const TensorIdentity& tensor, std::int64_t micro_batch, const Digest& digest,
         std::int64_t non_finite, StepSummary& summary);

/// Where the rows of a step are in a journal, one behind the other, and what they come to.
struct IndexedStep {
  std::int64_t step = 0;
  std::uint64_t offset = 0;  ///< of its first row, in bytes
  std::uint64_t bytes = 0;
  Digest checksum;  ///< `digest_run` of these bytes from 0 on
  StepSummary summary;

  bool operator==(const IndexedStep&) const = default;
};

/// The index beside a journal: `rank-N.index` beside `rank-N.csv`.
std::filesystem::path index_file(const std::filesystem::path& journal);

/// Appends an entry a step, each by one write. One thread at a time.
class StepIndexWriter {
 public:
  /// Throws Error (usage) when the file exists or cannot be made.
  StepIndexWriter(const std::filesystem::path& path, std::string_view identity);

  /// Throws Error (usage) when the disk is full.
  void append(const IndexedStep& step);

 private:
  AppendedFile file_;
};

/// What an index held.
struct StepIndex {
  std::string identity;  ///< of who wrote it
  std::vector<IndexedStep> steps;
};

/// Reads an index; of several entries of one step the last counts, and one that was torn at the end
/// is left out. Throws Error (usage) for a file
/// that is none, and for an entry that does not have the checksum that it names.
StepIndex read_step_index(const std::filesystem::path& path);

}  // namespace lockstep
