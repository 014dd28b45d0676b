#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "harness/checkpoint/checkpoint.h"
#include "harness/checkpoint/saved_tensor.h"
#include "harness/record/measure.h"
#include "harness/record/shard_runs.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {

namespace {

/// Bytes that are read at once. They stay in a processor's cache from one sum to the next.
constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;

/// A box of a tensor.
struct Box {
  std::vector<std::int64_t> offsets, sizes;
};

/// Calls `visit` with boxes of at most `most` elements, in the row-major order of `box`, which they
/// cover. The elements of each follow each other there.
template <class Visit>
void for_each_block(const Box& box, std::int64_t most, const Visit& visit) {
  const std::int64_t elements = element_count(box.sizes);
  if (elements == 0) return;
  const auto longer =
      std::find_if(box.sizes.begin(), box.sizes.end(), [](std::int64_t size) { return size > 1; });
  if (elements <= most || longer == box.sizes.end()) {
    visit(box, elements);
    return;
  }
  const auto dimension = static_cast<std::size_t>(longer - box.sizes.begin());
  const std::int64_t rows = std::max<std::int64_t>(1, most / (elements / *longer));
  for (std::int64_t first = 0; first < *longer; first += rows) {
    Box part = box;
    part.offsets[dimension] += first;
    part.sizes[dimension] = std::min(rows, *longer - first);
    for_each_block(part, most, visit);
  }
}

/// Adds up the parts of one tensor.
class TensorSums {
 public:
  explicit TensorSums(const CheckpointTensor& tensor) {
    part_.dtype = name(tensor.dtype);
    part_.global_shape = tensor.shape;
  }

  void add(const Box& box, std::span<const std::byte> bytes) {
    part_.offset = box.offsets;
    part_.local_shape = box.sizes;
    sums_.sketch += measure_and_sketch(part_, bytes);
    sums_.digest += part_.digest;
    sums_.non_finite += part_.statistics.non_finite;
    norm_ = std::hypot(norm_, part_.statistics.norm);
  }

  MeasuredTensor sums() const {
    MeasuredTensor sums = sums_;
    sums.norm = norm_;
    return sums;
  }

 private:
  Observation part_;
  MeasuredTensor sums_;
  double norm_ = 0;
};

/// Elements that lie in a file in their row-major order.
void add_rows(const RegularFile& file, std::uint64_t begin, const Box& box, std::int64_t item,
              TensorSums& sums) {
  std::uint64_t at = begin;
  for_each_block(box, kBlockBytes / item, [&](const Box& block, std::int64_t elements) {
    const auto size = static_cast<std::uint64_t>(elements * item);
    const std::string bytes = file.read(at, size);
    sums.add(block, std::as_bytes(std::span(bytes)));
    at += size;
  });
}

/// Elements in another order, such as those of a transposed tensor. All are in memory at once.
void add_strided(const RegularFile& file, const std::string& path, const SavedTensor& saved,
                 const Box& box, std::int64_t item, TensorSums& sums) {
  const auto size = static_cast<std::uint64_t>(element_count(box.sizes) * item);
  if (size > saved.storage.size) {  // an element many times, as torch.expand makes them
    throw malformed(path, 0, 0, "tensors of torch.save with elements of their own",
                    "more elements than its storage has");
  }
  const std::string storage = file.read(saved.storage.begin, saved.storage.size);
  std::string bytes(size, '\0');
  for (std::int64_t number = 0; number < element_count(box.sizes); ++number) {
    const std::vector<std::int64_t> index = index_of(number, box.sizes);
    std::int64_t from = saved.offset;
    for (std::size_t d = 0; d < index.size(); ++d) from += index[d] * saved.strides[d];
    bytes.replace(static_cast<std::size_t>(number * item), static_cast<std::size_t>(item), storage,
                  static_cast<std::size_t>(from * item), static_cast<std::size_t>(item));
  }
  sums.add(box, std::as_bytes(std::span(bytes)));
}

void add_archive(const RegularFile& file, const CheckpointTensor& tensor,
                 const CheckpointChunk& chunk, const Box& box, TensorSums& sums) {
  const SavedTensor saved = read_saved_tensor(file, chunk.file.string(), chunk.bytes);
  if (saved.dtype != tensor.dtype || saved.shape != chunk.sizes) {
    throw malformed(
        chunk.file.string(), 0, 0,
        fmt::format("a chunk of '{}' with {} [{}] at byte {}", tensor.name, name(tensor.dtype),
                    fmt::join(chunk.sizes, ", "), chunk.bytes.begin),
        fmt::format("{} [{}]", name(saved.dtype), fmt::join(saved.shape, ", ")));
  }
  const auto item = static_cast<std::int64_t>(item_size(tensor.dtype));
  if (!is_row_major(saved)) return add_strided(file, chunk.file.string(), saved, box, item, sums);
  add_rows(file, saved.storage.begin + static_cast<std::uint64_t>(saved.offset * item), box, item,
           sums);
}

}  // namespace

MeasuredTensor measure_tensor(const CheckpointTensor& tensor) {
  TensorSums sums(tensor);
  for (const CheckpointChunk& chunk : tensor.chunks) {
    const RegularFile file(chunk.file, kLargestCheckpointFile);
    const Box box{chunk.offsets, chunk.sizes};
    if (chunk.is_archive) {
      add_archive(file, tensor, chunk, box, sums);
    } else {
      add_rows(file, chunk.bytes.begin, box, static_cast<std::int64_t>(item_size(tensor.dtype)),
               sums);
    }
  }
  return sums.sums();
}

}  // namespace lockstep
