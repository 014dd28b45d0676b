#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// The part of one flattened parameter that lies in one partition.
struct PartitionPiece {
  std::int64_t first = 0;     ///< its first element of the parameter
  std::int64_t offset = 0;    ///< its position in the partition
  std::int64_t elements = 0;  ///< 0: no part of the parameter lies there
};

/// Parameters that are flattened, concatenated, padded at the end and cut into equal partitions. A
/// boundary may cut a parameter; a partition may consist of padding.
class PartitionLayout {
 public:
  /// `sizes`: elements of each parameter, may be 0. `partitions`: at least one. The total is padded
  /// to a multiple of `alignment` x `partitions`.
  PartitionLayout(std::vector<std::int64_t> sizes, int partitions, std::int64_t alignment);

  std::int64_t partition_size() const { return partition_size_; }
  std::int64_t elements() const { return partition_size_ * partitions_; }  ///< with the padding

  /// Start of a parameter in the whole.
  std::int64_t begin(std::size_t parameter) const { return begins_[parameter]; }

  /// The piece of a parameter, given by its index. A parameter before the partition has an empty
  /// piece at its end, one after the partition an empty piece at its start.
  PartitionPiece piece(std::size_t parameter, int partition) const;

 private:
  std::vector<std::int64_t> sizes_, begins_;
  int partitions_;
  std::int64_t partition_size_ = 0;
};

}  // namespace lockstep
