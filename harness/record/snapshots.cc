#include "harness/record/snapshots.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "harness/record/safetensors_file.h"
#include "harness/record/whole_file.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kIdentity = "process";
constexpr std::size_t kLengthSize = 8;

bool is_complex(DType dtype) { return components(dtype) == 2; }

Json header_of(const std::map<std::string, SnapshotTensor>& tensors, std::string_view identity) {
  Json header = Json::object();
  if (!identity.empty())
    header[std::string(kSafetensorsMetadata)][std::string(kIdentity)] = identity;
  std::uint64_t begin = 0;
  for (const auto& [key, tensor] : tensors) {
    if (stored_size(tensor.dtype, tensor.shape) != tensor.bytes.size()) {
      throw internal_error(fmt::format("'{}' has other bytes than its shape says", key));
    }
    std::vector<std::int64_t> shape = tensor.shape;
    if (is_complex(tensor.dtype)) {
      shape.push_back(2);
      header[std::string(kSafetensorsMetadata)][key] = name(tensor.dtype);
    }
    const std::uint64_t end = begin + tensor.bytes.size();
    header[key] = {{"dtype", stored_name(component_type(tensor.dtype))},
                   {"shape", shape},
                   {"data_offsets", {begin, end}}};
    begin = end;
  }
  return header;
}

/// Restores a tensor whose components the file has, "complex64". Throws Error (usage).
void restore_complex(const std::string& path, const std::string& key, const std::string& word,
                     std::map<std::string, SnapshotTensor>& tensors) {
  const std::optional<DType> dtype = parse<DType>(word);
  const auto at = tensors.find(key);
  if (!dtype || !is_complex(*dtype) || at == tensors.end()) return;
  SnapshotTensor& tensor = at->second;
  if (tensor.dtype != component_type(*dtype) || tensor.shape.empty() || tensor.shape.back() != 2) {
    throw malformed(
        path, 0, 0,
        fmt::format("pairs of {} for {} in '{}'", stored_name(component_type(*dtype)), word, key),
        fmt::format("{} of shape [{}]", stored_name(tensor.dtype), fmt::join(tensor.shape, ", ")));
  }
  tensor.dtype = *dtype;
  tensor.shape.pop_back();
}

}  // namespace

std::string snapshot_key(const Observation& observation) {
  return fmt::format("{}/{}/{}/{}", observation.micro_batch, name(observation.phase),
                     name(observation.kind), observation.name);
}

std::filesystem::path snapshot_file(const std::filesystem::path& folder, int rank,
                                    std::int64_t step) {
  return folder / fmt::format("rank-{}.step-{}.safetensors", rank, step);
}

void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, SnapshotTensor>& tensors,
                       std::string_view identity) {
  std::string header = header_of(tensors, identity).dump();
  header.append((kLengthSize - header.size() % kLengthSize) % kLengthSize, ' ');
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), kLengthSize);
  file += header;
  for (const auto& [key, tensor] : tensors) {
    file.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  write_whole_file(path, file);
}

Snapshot read_snapshot(const std::filesystem::path& path) {
  const SafetensorsFile file(path, kLargestSnapshot);
  Snapshot values;
  for (const auto& [key, stored] : file.tensors()) {
    const std::string bytes = file.read(stored);
    const auto* const data = reinterpret_cast<const std::byte*>(bytes.data());
    values.tensors[key] = {stored.dtype, stored.shape, {data, data + bytes.size()}};
  }
  for (const auto& [key, word] : file.metadata()) {
    restore_complex(path.string(), key, word, values.tensors);
  }
  const auto identity = file.metadata().find(std::string(kIdentity));
  if (identity != file.metadata().end()) values.identity = identity->second;
  return values;
}

std::map<std::string, SnapshotTensor> read_safetensors(const std::filesystem::path& path) {
  return read_snapshot(path).tensors;
}

}  // namespace lockstep
