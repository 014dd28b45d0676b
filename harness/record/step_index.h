#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/record/appended_file.h"
#include "harness/record/digest.h"
#include "harness/record/observation.h"

namespace lockstep {

/// Order-independent summary of the rows of one step on one rank. It shows that ranks agree without
/// reading the rows.
struct StepSummary {
  /// Digests of the rows of a replica group, by phase.
  using Phases = std::array<Digest, 4>;

  std::int64_t rows = 0;
  std::int64_t non_finite = 0;  ///< elements, over all rows
  bool has_values = false;      ///< at least one tensor is comparable
  Digest tensors;               ///< of the set of observed tensors, without their values
  /// By the digest of the group's name. A tensor held by one rank alone has its own group.
  std::map<Digest, Phases> groups;

  bool operator==(const StepSummary&) const = default;
};

/// Contribution of a tensor to the digests of a step, computed once per tensor.
struct TensorIdentity {
  Digest tensor;  ///< of all its properties
  Digest group;   ///< of the name of its replica group
  Phase phase = Phase::pre_forward;
  bool has_values = false;
  bool is_of_whole_numbers = false;
};

TensorIdentity identity_of(const ObservedTensor& tensor);

/// Adds a row.
void add(const TensorIdentity& tensor, std::int64_t micro_batch, const Digest& digest,
         std::int64_t non_finite, StepSummary& summary);

/// The digests of the rows that belong to `rank` alone, by phase: in a group of its own.
StepSummary::Phases own_rows_of(int rank, const StepSummary& summary);

/// Position of a step's contiguous rows in a journal, and their summary.
struct IndexedStep {
  std::int64_t step = 0;
  std::uint64_t offset = 0;  ///< of its first row, in bytes
  std::uint64_t bytes = 0;
  Digest checksum;  ///< `digest_run` of these bytes, from offset 0
  StepSummary summary;

  bool operator==(const IndexedStep&) const = default;
};

/// The index next to a journal: `rank-N.index` for `rank-N.csv`.
std::filesystem::path index_file(const std::filesystem::path& journal);

/// Appends one entry per step, each by one write. One thread at a time.
class StepIndexWriter {
 public:
  /// Throws Error (usage) when the file exists or cannot be created.
  StepIndexWriter(const std::filesystem::path& path, std::string_view identity);

  /// Throws Error (usage) when the disk is full.
  void append(const IndexedStep& step);

 private:
  AppendedFile file_;
};

/// Content of an index.
struct StepIndex {
  std::string identity;  ///< of the writer
  std::vector<IndexedStep> steps;
};

/// Reads an index. If a step has several entries, the last one counts; a torn entry at the end is
/// skipped. Throws Error (usage) for a file of another format and for an entry with a wrong
/// checksum.
StepIndex read_step_index(const std::filesystem::path& path);

/// Reads an index that is still being written, entry by entry.
class StepIndexReader {
 public:
  explicit StepIndexReader(std::filesystem::path path) : path_(std::move(path)) {}

  /// The steps that were completed since the last call: a step is complete when the next one has an
  /// entry. Throws Error (usage) for a file of another format and for an entry with a wrong
  /// checksum.
  std::vector<IndexedStep> completed();

  /// The step after those, as far as it has an entry; null: there is none. Its rank may add rows.
  const IndexedStep* begun() const { return steps_.empty() ? nullptr : &steps_.back(); }

 private:
  std::filesystem::path path_;
  std::uint64_t offset_ = 0;        ///< of the first byte not read yet
  std::vector<IndexedStep> steps_;  ///< read, and not complete
  std::uint64_t missing_ = 0;       ///< entries of the last step not read yet
};

}  // namespace lockstep
