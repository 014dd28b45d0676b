#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/checkpoint/checkpoint.h"

namespace lockstep {

/// Reads the elements of a checkpoint's tensor once, in their row-major order, whatever its chunks
/// are: each is read from its beginning to its end, and the one that has the next element is found
/// in a heap. So the time is linear in the elements, and the memory in use does not depend on them,
/// except for a chunk whose own elements lie in another order: it is read as a whole.
class TensorStream {
 public:
  /// Bytes that `next` returns at once, at most. They stay in a processor's cache from one sum to
  /// the next.
  static constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

  /// Requires: the chunks cover the tensor once, as `open_checkpoint` checks. `tensor` stays
  /// longer. Throws Error (usage) if a chunk is malformed.
  explicit TensorStream(const CheckpointTensor& tensor);

  /// The next elements, `most` of them unless fewer are left; empty at the end. Requires: `most`
  /// elements have at most `kBlockBytes`. Valid until the next call. Throws Error (usage).
  std::span<const std::byte> next(std::size_t most);

 private:
  /// A chunk that is being read.
  class Cursor {
   public:
    Cursor(const CheckpointTensor& tensor, const CheckpointChunk& chunk, std::size_t buffer);

    bool is_done() const { return run_ == runs_; }

    /// The number, in the tensor, of the next element. Requires: it is not done.
    std::int64_t place() const { return run_begin_ + done_; }

    /// Elements that follow each other from there on.
    std::int64_t left_of_run() const { return length_ - done_; }

    /// Appends that many of them, or fewer.
    void take(std::int64_t count, std::vector<std::byte>& bytes);

   private:
    void begin_run();
    void fill();

    const CheckpointTensor* tensor_;
    const CheckpointChunk* chunk_;
    std::size_t item_;
    std::size_t most_buffered_;   ///< bytes
    std::int64_t runs_ = 0;       ///< of elements that follow each other in the tensor, too
    std::int64_t length_ = 0;     ///< of each
    std::int64_t run_ = 0;        ///< the one that is being read
    std::int64_t run_begin_ = 0;  ///< in the tensor
    std::int64_t done_ = 0;       ///< elements of it
    std::uint64_t file_at_ = 0;   ///< of the first byte that was not read
    std::uint64_t file_left_ = 0;
    bool is_strided_ = false;  ///< in an archive, in another order: it is read at once
    std::string buffer_;
    std::size_t buffer_at_ = 0;
  };

  std::vector<Cursor> cursors_;
  std::vector<std::size_t> heap_;  ///< of those that are not done: the next place at the front
  std::size_t item_;
  std::vector<std::byte> bytes_;
};

}  // namespace lockstep
