#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/dtype.h"
#include "harness/record/observation.h"

namespace lockstep {

/// A tensor stored in full: row-major bytes of the local part, as observed.
struct SnapshotTensor {
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

/// Key of an observation's tensor in its file: `<micro-batch>/<phase>/<kind>/<name>`.
std::string snapshot_key(const Observation& observation);

/// File of the snapshots of `rank` in `step`, in a cell's folder: `rank-N.step-S.safetensors`.
std::filesystem::path snapshot_file(const std::filesystem::path& folder, int rank,
                                    std::int64_t step);

/// Content of a safetensors file.
struct Snapshot {
  std::string identity;  ///< `process_identity` of the writer; empty: unknown
  std::map<std::string, SnapshotTensor> tensors;
};

/// Writes `tensors` as a safetensors file, sorted by key. It is written under a temporary name and
/// then renamed, so an existing file is complete. A complex tensor is stored as its components with
/// a last dimension of 2 and its dtype under `__metadata__`. A non-empty `identity` is stored
/// there, too. Throws Error (usage) when it cannot be written.
void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, SnapshotTensor>& tensors,
                       std::string_view identity = "");

/// Reads a safetensors file. Throws Error (usage) when it is missing or malformed: header length,
/// offsets and shapes are checked against the file's size.
Snapshot read_snapshot(const std::filesystem::path& path);

/// The tensors of such a file, whichever process wrote it.
std::map<std::string, SnapshotTensor> read_safetensors(const std::filesystem::path& path);

}  // namespace lockstep
