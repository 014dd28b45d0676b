#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/checkpoint/zip_archive.h"
#include "harness/record/dtype.h"
#include "reports/base/regular_file.h"

namespace lockstep {

/// The one tensor of an archive of torch.save. Its elements lie within its storage.
struct SavedTensor {
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< in elements
  std::int64_t offset = 0;            ///< of the first element in the storage, in elements
  ByteRange storage;                  ///< in the file
};

/// Reads the archive in `range` of a file. Throws Error (usage) if it is damaged, if it holds
/// something else than one dense tensor, and if a big-endian machine wrote it.
SavedTensor read_saved_tensor(const RegularFile& file, const std::string& path,
                              const ByteRange& range);

/// Whether the elements follow each other in row-major order.
bool is_row_major(const SavedTensor& tensor);

}  // namespace lockstep
