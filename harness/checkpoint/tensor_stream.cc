#include "harness/checkpoint/tensor_stream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/checkpoint/saved_tensor.h"
#include "harness/record/shard_runs.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {

namespace {

constexpr std::size_t kLeastBuffer = 4096;  // bytes, as a page has

/// The elements of `saved` in row-major order. All are in memory at once.
std::string in_order(const RegularFile& file, const std::string& path, const SavedTensor& saved) {
  const auto item = static_cast<std::int64_t>(item_size(saved.dtype));
  const std::int64_t elements = element_count(saved.shape);
  const auto size = static_cast<std::uint64_t>(elements * item);
  if (size > saved.storage.size) {  // an element many times, as torch.expand makes them
    throw malformed(path, 0, 0, "tensors of torch.save with elements of their own",
                    "more elements than its storage has");
  }
  const std::string storage = file.read(saved.storage.begin, saved.storage.size);
  std::string bytes(size, '\0');
  for (std::int64_t number = 0; number < elements; ++number) {
    const std::vector<std::int64_t> index = index_of(number, saved.shape);
    std::int64_t from = saved.offset;
    for (std::size_t d = 0; d < index.size(); ++d) from += index[d] * saved.strides[d];
    bytes.replace(static_cast<std::size_t>(number * item), static_cast<std::size_t>(item), storage,
                  static_cast<std::size_t>(from * item), static_cast<std::size_t>(item));
  }
  return bytes;
}

/// Throws unless the archive has the elements of the chunk.
SavedTensor saved_chunk(const RegularFile& file, const CheckpointTensor& tensor,
                        const CheckpointChunk& chunk) {
  SavedTensor saved = read_saved_tensor(file, chunk.file.string(), chunk.bytes);
  if (saved.dtype == tensor.dtype && saved.shape == chunk.sizes) return saved;
  throw malformed(chunk.file.string(), 0, 0,
                  fmt::format("a chunk of '{}' with {} [{}] at byte {}", tensor.name,
                              name(tensor.dtype), fmt::join(chunk.sizes, ", "), chunk.bytes.begin),
                  fmt::format("{} [{}]", name(saved.dtype), fmt::join(saved.shape, ", ")));
}

}  // namespace

TensorStream::Cursor::Cursor(const CheckpointTensor& tensor, const CheckpointChunk& chunk,
                             std::size_t buffer)
    : tensor_(&tensor),
      chunk_(&chunk),
      item_(item_size(tensor.dtype)),
      most_buffered_(buffer / item_ * item_),
      file_at_(chunk.bytes.begin) {
  const auto elements = static_cast<std::uint64_t>(element_count(chunk.sizes));
  file_left_ = elements * item_;
  if (chunk.is_archive) {
    const RegularFile file(chunk.file, kLargestCheckpointFile);
    const SavedTensor saved = saved_chunk(file, tensor, chunk);
    file_at_ = saved.storage.begin + static_cast<std::uint64_t>(saved.offset) * item_;
    is_strided_ = !is_row_major(saved);
  }
  if (elements == 0) return;
  ObservedTensor part;
  part.global_shape = tensor.shape;
  part.offset = chunk.offsets;
  part.local_shape = chunk.sizes;
  runs_ = number_of_runs(part);
  length_ = static_cast<std::int64_t>(elements) / runs_;
  begin_run();
}

void TensorStream::Cursor::begin_run() {
  const std::vector<std::int64_t> index = index_of(run_ * length_, chunk_->sizes);
  run_begin_ = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    run_begin_ = run_begin_ * tensor_->shape[d] + chunk_->offsets[d] + index[d];
  }
  done_ = 0;
}

void TensorStream::Cursor::fill() {
  const RegularFile file(chunk_->file, kLargestCheckpointFile);
  buffer_at_ = 0;
  if (is_strided_) {
    buffer_ = in_order(file, chunk_->file.string(), saved_chunk(file, *tensor_, *chunk_));
    return;
  }
  const std::uint64_t size = std::min<std::uint64_t>(file_left_, most_buffered_);
  buffer_ = file.read(file_at_, size);
  file_at_ += size;
  file_left_ -= size;
}

void TensorStream::Cursor::take(std::int64_t count, std::vector<std::byte>& bytes) {
  if (buffer_at_ == buffer_.size()) fill();
  const std::size_t wanted = static_cast<std::size_t>(count) * item_;
  const std::size_t size = std::min(wanted, buffer_.size() - buffer_at_);
  const auto* const from = reinterpret_cast<const std::byte*>(buffer_.data()) + buffer_at_;
  bytes.insert(bytes.end(), from, from + size);
  buffer_at_ += size;
  done_ += static_cast<std::int64_t>(size / item_);
  if (done_ < length_) return;
  ++run_;
  if (is_done()) {
    buffer_ = std::string();
  } else {
    begin_run();
  }
}

TensorStream::TensorStream(const CheckpointTensor& tensor) : item_(item_size(tensor.dtype)) {
  const std::size_t chunks = std::max<std::size_t>(tensor.chunks.size(), 1);
  const std::size_t buffer = std::max(kLeastBuffer, kBlockBytes / chunks);
  cursors_.reserve(tensor.chunks.size());
  for (const CheckpointChunk& chunk : tensor.chunks) {
    cursors_.emplace_back(tensor, chunk, buffer);
    if (!cursors_.back().is_done()) heap_.push_back(cursors_.size() - 1);
  }
  const auto is_later = [&](std::size_t a, std::size_t b) {
    return cursors_[a].place() > cursors_[b].place();
  };
  std::make_heap(heap_.begin(), heap_.end(), is_later);
}

std::span<const std::byte> TensorStream::next(std::size_t most) {
  const auto is_later = [&](std::size_t a, std::size_t b) {
    return cursors_[a].place() > cursors_[b].place();
  };
  bytes_.clear();
  while (!heap_.empty() && bytes_.size() < most * item_) {
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    Cursor& cursor = cursors_[heap_.back()];
    const auto room = static_cast<std::int64_t>(most - bytes_.size() / item_);
    cursor.take(std::min(room, cursor.left_of_run()), bytes_);
    if (cursor.is_done()) {
      heap_.pop_back();
    } else {
      std::push_heap(heap_.begin(), heap_.end(), is_later);
    }
  }
  return bytes_;
}

}  // namespace lockstep
