#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/appended_file.h"
#include "harness/record/compact_map.h"
#include "harness/record/observation.h"
#include "harness/record/step_index.h"

namespace lockstep {

/// The tensor table next to a journal: `rank-N.tensors.csv` for `rank-N.csv`.
std::filesystem::path tensor_table_file(const std::filesystem::path& journal);

/// Numbers the tensors of a journal from 0, in the order of their first observation. Each tensor is
/// written once, by one write, before a row refers to it. One thread at a time.
class TensorTableWriter {
 public:
  /// Throws Error (usage) when the file exists or cannot be created.
  TensorTableWriter(const std::filesystem::path& path, std::string_view identity);

  /// The number of a tensor. Throws Error (usage) when it is new and the disk is full.
  std::size_t number_of(const ObservedTensor& tensor);

 private:
  using Tensors = std::map<ObservedTensor, std::size_t>;

  AppendedFile file_;
  Tensors numbers_;
  std::vector<Tensors::const_iterator> tensors_;  ///< by number
  std::size_t next_ = 0;  ///< steps observe the same tensors in the same order
};

/// A tensor that ranks observed, and its contribution to the digests of a step.
struct KnownTensor {
  explicit KnownTensor(const ObservedTensor& known) : tensor(known), identity(identity_of(known)) {}

  const ObservedTensor& key() const { return tensor; }

  ObservedTensor tensor;
  TensorIdentity identity;
  std::uint32_t number = 0;  ///< in the order in which they were stored
};

/// The tensors of an execution, each stored once, however many ranks observed it. Any thread.
class KnownTensors {
 public:
  /// Stores a tensor that is new. The result is valid as long as this.
  const KnownTensor* of(const ObservedTensor& tensor);

  /// Those stored up to now. Not while another thread stores one.
  std::size_t size() const { return tensors_.size(); }
  const KnownTensor& operator[](std::size_t number) const { return tensors_[number]; }

 private:
  struct Hash {
    std::uint64_t operator()(const ObservedTensor& tensor) const;
  };

  std::mutex mutex_;
  CompactMap<KnownTensor, Hash> tensors_;
};

/// Content of a tensor table.
struct TensorTable {
  std::string identity;  ///< of the writer
  std::vector<ObservedTensor> tensors;
};

/// Reads a tensor table; a torn last row is skipped. Throws Error (usage) with file, line, column
/// and the expected content.
TensorTable read_tensor_table(const std::filesystem::path& path);

}  // namespace lockstep
