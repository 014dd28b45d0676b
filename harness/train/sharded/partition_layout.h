#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// The stretch of one flattened parameter that lies in one partition.
struct PartitionPiece {
  std::int64_t first = 0;     ///< element of the parameter that it begins with
  std::int64_t offset = 0;    ///< of the partition where it lies
  std::int64_t elements = 0;  ///< 0: nothing of the parameter lies there
};

/// Parameters that are flattened one behind the other, padded at the end and cut in equal
/// partitions. A boundary may cut a parameter; a partition may be padding and nothing else.
class PartitionLayout {
 public:
  /// `sizes`: elements of the parameters, 0 among them. `partitions`: at least one. The whole is
  /// padded to a multiple of `alignment` x `partitions`.
  PartitionLayout(std::vector<std::int64_t> sizes, int partitions, std::int64_t alignment);

  std::int64_t partition_size() const { return partition_size_; }
  std::int64_t elements() const { return partition_size_ * partitions_; }  ///< with the padding

  /// Where a parameter begins in the whole.
  std::int64_t begin(std::size_t parameter) const { return begins_[parameter]; }

  /// Of a parameter, by its place in the order. One that ends before the partition begins with its
  /// end, one that comes behind it with its start.
  PartitionPiece piece(std::size_t parameter, int partition) const;

 private:
  std::vector<std::int64_t> sizes_, begins_;
  int partitions_;
  std::int64_t partition_size_ = 0;
};

}  // namespace lockstep
