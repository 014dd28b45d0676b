#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/checkpoint/checkpoint.h"

namespace lockstep {

/// The file with the names and places of a distributed checkpoint.
inline constexpr const char* kDistributedMetadata = ".metadata";

/// Tensors as the files have them. Nothing says yet that the chunks of one cover it.
struct StoredCheckpoint {
  std::vector<CheckpointTensor> tensors;
  std::vector<std::filesystem::path> files;
  std::int64_t optimizer_tensors = 0;  ///< that are not in `tensors`, as far as they were known
  std::int64_t other_values = 0;       ///< that are no tensors
};

/// Reads the headers of safetensors files. Several with the same tensor hold shards of it, and have
/// the offsets that torch's HuggingFaceStorageWriter stores. Throws Error (usage).
StoredCheckpoint read_safetensors_files(const std::vector<std::filesystem::path>& files);

/// The safetensors files of a folder: those that its index names, or else all, sorted. Throws Error
/// (usage) if the index is malformed or names a file that is not there.
std::vector<std::filesystem::path> safetensors_files_of(const std::filesystem::path& folder);

/// Reads the metadata of a distributed checkpoint of torch. Throws Error (usage).
StoredCheckpoint read_distributed(const std::filesystem::path& folder);

/// Throws Error (usage) unless `name` is a relative path that stays in its folder. `from`: the file
/// that has it.
void require_inside_folder(const std::string& name, const std::filesystem::path& from);

}  // namespace lockstep
