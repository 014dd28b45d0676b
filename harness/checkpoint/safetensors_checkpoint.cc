#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "harness/checkpoint/read_checkpoint.h"
#include "harness/record/flat_json.h"
#include "harness/record/safetensors_file.h"
#include "harness/record/whole_number.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kShardingInfo = "DCP_SHARDING_INFO";

/// Offsets of the tensors of a file that holds shards, by name; empty: all of it is whole.
std::map<std::string, std::vector<std::int64_t>> saved_offsets(const SafetensorsFile& file,
                                                               const std::string& path) {
  const auto info = file.metadata().find(kShardingInfo);
  if (info == file.metadata().end()) return {};
  const Json json = parse_flat_json(info->second, path, kShardingInfo);
  std::map<std::string, std::vector<std::int64_t>> offsets;
  try {
    for (const auto& [name, entry] : json.items()) {
      offsets[name] = whole_numbers<std::int64_t>(entry, "saved_offsets");
    }
  } catch (const std::exception&) {  // of JSON, or of a number that is not whole
    throw malformed(path, 0, 0, fmt::format("saved_offsets of every tensor in {}", kShardingInfo),
                    info->second);
  }
  return offsets;
}

/// Adds a shard. The tensor reaches as far as its farthest one.
void add_shard(const CheckpointChunk& chunk, CheckpointTensor& tensor) {
  tensor.shape.resize(chunk.sizes.size());
  for (std::size_t d = 0; d < chunk.sizes.size(); ++d) {
    std::int64_t end = 0;
    const bool fits =
        chunk.offsets[d] >= 0 && !__builtin_add_overflow(chunk.offsets[d], chunk.sizes[d], &end);
    if (!fits) {
      throw malformed(chunk.file.string(), 0, 0,
                      fmt::format("an offset of '{}' from 0 on", tensor.name),
                      fmt::format("{}", chunk.offsets[d]));
    }
    tensor.shape[d] = std::max(tensor.shape[d], end);
  }
  tensor.chunks.push_back(chunk);
}

void add_file(const fs::path& path, std::map<std::string, CheckpointTensor>& tensors) {
  const SafetensorsFile file(path, kLargestCheckpointFile);
  const auto offsets = saved_offsets(file, path.string());
  for (const auto& [name, stored] : file.tensors()) {
    const auto shard = offsets.find(name);
    const bool is_whole = shard == offsets.end();
    CheckpointChunk chunk{path, {stored.begin, stored.size}, false, {}, stored.shape};
    chunk.offsets = is_whole ? std::vector<std::int64_t>(stored.shape.size()) : shard->second;
    const auto [place, is_new] = tensors.try_emplace(name);
    CheckpointTensor& tensor = place->second;
    if (is_new) {
      tensor.name = name;
      tensor.dtype = stored.dtype;
      tensor.shape.resize(stored.shape.size());
    }
    const bool fits = stored.dtype == tensor.dtype && chunk.offsets.size() == tensor.shape.size() &&
                      stored.shape.size() == tensor.shape.size() && (is_new || !is_whole);
    if (!fits) {
      throw malformed(path.string(), 0, 0,
                      fmt::format("'{}' in one file only, or as shards of one form", name),
                      "another '" + name + "'");
    }
    add_shard(chunk, tensor);
  }
}

std::vector<fs::path> files_of_index(const fs::path& index) {
  const std::string text = read_text(index, kLargestSnapshotHeader);
  const Json json = parse_flat_json(text, index.string(), "the index");
  std::set<std::string> names;
  try {
    for (const auto& [tensor, file] : json.at("weight_map").items()) {
      names.insert(file.get<std::string>());
    }
  } catch (const Json::exception&) {
    throw malformed(index.string(), 0, 0, "a weight_map from tensors to files", text);
  }
  std::vector<fs::path> files;
  for (const std::string& name : names) {
    require_inside_folder(name, index);
    files.push_back(index.parent_path() / name);
    std::error_code failure;
    if (fs::exists(files.back(), failure)) continue;
    throw unreadable(index.string(), fmt::format("it names {}, which is not there", name),
                     "Copy the whole folder again");
  }
  return files;
}

}  // namespace

void require_inside_folder(const std::string& name, const fs::path& from) {
  const fs::path path(name);
  const bool leaves = std::find(path.begin(), path.end(), "..") != path.end();
  if (!path.empty() && path.is_relative() && !leaves) return;
  throw malformed(from.string(), 0, 0, "names of files in its folder", name);
}

std::vector<fs::path> safetensors_files_of(const fs::path& folder) {
  std::error_code failure;
  if (fs::exists(folder / kIndexName, failure)) return files_of_index(folder / kIndexName);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

StoredCheckpoint read_safetensors_files(const std::vector<fs::path>& files) {
  std::map<std::string, CheckpointTensor> tensors;
  for (const fs::path& file : files) add_file(file, tensors);
  StoredCheckpoint stored;
  stored.files = files;
  for (auto& [name, tensor] : tensors) stored.tensors.push_back(std::move(tensor));
  return stored;
}

}  // namespace lockstep
