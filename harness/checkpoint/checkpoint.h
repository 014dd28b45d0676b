#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/checkpoint/zip_archive.h"
#include "harness/record/dtype.h"
#include "harness/record/observation.h"
#include "harness/record/sketch.h"

namespace lockstep {

/// A box of a tensor, and the bytes of a file that hold it.
struct CheckpointChunk {
  std::filesystem::path file;
  ByteRange bytes;
  bool is_archive = false;  ///< one of torch.save with one tensor; else row-major elements
  std::vector<std::int64_t> offsets;  ///< in the tensor
  std::vector<std::int64_t> sizes;
};

/// A tensor of a checkpoint, put together from chunks that cover it once.
struct CheckpointTensor {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;
  std::vector<CheckpointChunk> chunks;
};

/// The tensor that parts make up one after the other along their first dimension. Absent: their
/// dtypes or their other dimensions are not the same. Requires: there is one.
std::optional<CheckpointTensor> stacked(const std::vector<const CheckpointTensor*>& parts);

/// What is known of a checkpoint before its tensors are read.
struct Checkpoint {
  std::filesystem::path path;
  std::string title;  ///< "model.safetensors", "distributed checkpoint in 2 files"
  std::vector<CheckpointTensor> tensors;  ///< without the state of optimizers, by name
  std::int64_t optimizer_tensors = 0;     ///< that were left out
  std::int64_t other_values = 0;          ///< that are no tensors, and were left out
};

/// Whether a path is a checkpoint, or would be one in another format: a safetensors file, a folder
/// that holds some, a distributed checkpoint of torch, or a file of torch.save.
bool is_checkpoint(const std::filesystem::path& path);

/// Reads the names and places of all tensors. Throws Error (usage) if a file is missing or
/// malformed, if chunks do not cover a tensor once, and for a file of torch.save: it is a pickle,
/// which may run any code, so the sentence names the command that converts it.
Checkpoint open_checkpoint(const std::filesystem::path& path);

/// A whole tensor in numbers.
struct MeasuredTensor {
  Digest digest;
  double norm = 0;  ///< L2
  std::int64_t non_finite = 0;
  Sketch sketch;
};

/// Reads a tensor block by block, so the memory in use does not depend on its size. Throws Error
/// (usage) if a chunk is malformed.
MeasuredTensor measure_tensor(const CheckpointTensor& tensor);

}  // namespace lockstep
