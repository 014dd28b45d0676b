#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/record/appended_file.h"
#include "harness/record/component_sums.h"
#include "harness/record/journal_segments.h"
#include "harness/record/observation.h"

namespace lockstep {

/// A linear summary of a tensor: two sketches of 64 numbers. In each one a component is added to
/// one lane with a pseudo-random sign; lane and sign follow from its place in the global tensor. So
/// the sketches of shards add up to those of the whole tensor, and the difference of two is that of
/// the difference. Components that are not finite count as 0.
///
/// Of component i = 64 b + j, block b, in the first sketch: lane j xor h(b), sign: bit j of s(b);
/// in the second one: lane j xor h(b) xor 8 (b mod 8) xor g(b div 8), that sign times t(b div 8).
/// Here h, s, g and t are hashes. Two components of a group of 8 blocks never share a lane of both,
/// and two of a block none at all; else they share both, with both signs, with probability 2^-14.
///
/// Source: Charikar, Chen and Farach-Colton, "Finding frequent items in data streams", 2002, with
/// two rows.
struct Sketch {
  static constexpr std::size_t kLanes = ComponentSums::kLanes;  ///< of each sketch

  decltype(ComponentSums::lanes) lanes{};  ///< of the first sketch, then of the second

  Sketch& operator+=(const Sketch& other);
  Sketch& operator-=(const Sketch& other);
  bool operator==(const Sketch&) const = default;
};

/// The estimate of an L2 norm has at most this relative error in 19 of 20 cases: two standard
/// deviations. The square of the norm has the relative variance 2/128 at most, whatever the tensor.
/// A tensor of at most 64 components has no error.
inline constexpr double kSketchError = 0.13;

/// The same in 99 of 100 cases.
inline constexpr double kSketchLargeError = 0.17;

/// Estimated L2 norm of the tensor: by the mean of its squares in both sketches.
double norm_of(const Sketch& sketch);

/// Estimated scalar product of two tensors: the mean of both sketches.
double product_of(const Sketch& a, const Sketch& b);

/// Sketches of a step: the number of a row among those of the step, from 0, and the sketch of its
/// value.
using SketchesOfStep = std::vector<std::pair<std::int64_t, Sketch>>;

/// `rank-N.sketches` of a rank's folder.
std::filesystem::path sketch_file(const std::filesystem::path& folder, int rank);

/// Appends one entry per step, each by one write. One thread at a time.
class SketchWriter {
 public:
  /// Throws Error (usage) when the file exists or cannot be created.
  SketchWriter(const std::filesystem::path& path, std::string_view identity);

  /// Throws Error (usage) when the disk is full.
  void append(std::int64_t step, const SketchesOfStep& sketches);

  std::uint64_t bytes() const { return bytes_; }  ///< of the file

 private:
  AppendedFile file_;
  std::uint64_t bytes_ = 0;
};

/// Whether the header of a file was written: a rank that is killed at once, or finds the disk full,
/// leaves less.
bool has_sketches(const std::filesystem::path& path);

/// Reads sketches step by step; stores only their positions.
class SketchReader {
 public:
  /// Of the first file and those next to it, of a journal with so many `segments`; each may be
  /// missing. Skips a torn entry at the end. Throws Error (usage) for a file of another format or
  /// writer.
  explicit SketchReader(const std::filesystem::path& path, std::size_t segments = 1);

  bool empty() const { return files_.empty(); }              ///< there is no file
  const std::string& identity() const { return identity_; }  ///< of the writer

  /// By `seq` of the row, if that of the step's first row is `first_seq`; empty if the step has
  /// none. Throws Error (usage) for an entry with a wrong checksum.
  std::map<std::int64_t, Sketch> at(std::int64_t step, std::int64_t first_seq) const;

 private:
  struct Entry {
    std::size_t file = 0;
    std::uint64_t offset = 0;
    std::uint64_t count = 0;  ///< sketches
  };
  void open(const std::filesystem::path& path);

  std::vector<std::filesystem::path> files_;
  std::string identity_;
  std::multimap<std::int64_t, Entry> entries_;  ///< by step
};

/// Removes the sketches of other steps from a file that its rank has ended. The file is replaced as
/// a whole. Throws Error (usage), and leaves it as it was, if it cannot be read or written.
void thin_sketches(const std::filesystem::path& path, const KeepsStep& keeps);

}  // namespace lockstep
