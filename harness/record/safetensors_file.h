#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/dtype.h"
#include "reports/base/regular_file.h"

namespace lockstep {

/// The key of a file's texts, next to those of its tensors.
inline constexpr std::string_view kSafetensorsMetadata = "__metadata__";

/// The format's name of a component type: "F32".
std::string_view stored_name(DType component);

/// Bytes of a tensor; empty if they exceed 64 bits.
std::optional<std::uint64_t> stored_size(DType dtype, const std::vector<std::int64_t>& shape);

/// Place and form of a tensor in a file: row-major bytes.
struct StoredTensor {
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< byte of the file
  std::uint64_t size = 0;   ///< in bytes
};

/// A safetensors file with a header that was checked against the file's size. One thread at a time.
class SafetensorsFile {
 public:
  /// `most_bytes`: a constant of file_limits.h. Throws Error (usage) when the file is missing,
  /// larger, or malformed: in its header, in an offset, a shape, a dtype, or a name that is there
  /// twice.
  SafetensorsFile(const std::filesystem::path& path, std::uint64_t most_bytes);

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

  /// The texts of `__metadata__`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// Throws Error (usage) when the bytes no longer exist.
  std::string read(const StoredTensor& tensor) const {
    return file_.read(tensor.begin, tensor.size);
  }

 private:
  RegularFile file_;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace lockstep
