#include "harness/train/sharded/partition_layout.h"

#include <algorithm>
#include <utility>

namespace lockstep {

PartitionLayout::PartitionLayout(std::vector<std::int64_t> sizes, int partitions,
                                 std::int64_t alignment)
    : sizes_(std::move(sizes)), partitions_(partitions) {
  std::int64_t total = 0;
  for (const std::int64_t size : sizes_) {
    begins_.push_back(total);
    total += size;
  }
  const std::int64_t multiple = alignment * partitions;
  partition_size_ = (total + multiple - 1) / multiple * alignment;
}

PartitionPiece PartitionLayout::piece(std::size_t parameter, int partition) const {
  const std::int64_t start = partition_size_ * partition - begins_[parameter];
  const std::int64_t size = sizes_[parameter];
  PartitionPiece piece;
  piece.first = std::clamp<std::int64_t>(start, 0, size);
  piece.elements = std::clamp<std::int64_t>(start + partition_size_, 0, size) - piece.first;
  piece.offset = std::clamp<std::int64_t>(piece.first - start, 0, partition_size_);
  return piece;
}

}  // namespace lockstep
