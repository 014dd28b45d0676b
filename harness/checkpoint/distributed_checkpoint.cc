#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "harness/checkpoint/model_names.h"
#include "harness/checkpoint/pickle.h"
#include "harness/checkpoint/pickled_torch.h"
#include "harness/checkpoint/read_checkpoint.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// Globals in the metadata besides dtypes. None is ever called.
constexpr std::array<std::string_view, 20> kGlobals{
    "builtins.getattr",  // of an enum
    "builtins.set",
    "collections.OrderedDict",
    "pathlib.Path",
    "pathlib.PosixPath",
    "pathlib.PurePosixPath",
    "pathlib._local.Path",
    "pathlib._local.PosixPath",
    "torch.Size",
    "torch.distributed.checkpoint.filesystem._StorageInfo",
    "torch.distributed.checkpoint.filesystem._StoragePrefix",
    "torch.distributed.checkpoint.metadata.BytesStorageMetadata",
    "torch.distributed.checkpoint.metadata.ChunkStorageMetadata",
    "torch.distributed.checkpoint.metadata.Metadata",
    "torch.distributed.checkpoint.metadata.MetadataIndex",
    "torch.distributed.checkpoint.metadata.StorageMeta",
    "torch.distributed.checkpoint.metadata.TensorProperties",
    "torch.distributed.checkpoint.metadata.TensorStorageMetadata",
    "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING",
    "torch.serialization._get_layout"};

/// Of a tensor or a file. A pickle may name a long one as often as it likes.
constexpr std::size_t kLongestName = 4096;

/// Also one that Lockstep does not read: an optimizer may have it.
bool is_any_dtype(std::string_view global) {
  constexpr std::size_t kLongestDType = 64;
  constexpr std::array<std::string_view, 6> kBegins{"torch.float", "torch.bfloat",  "torch.int",
                                                    "torch.uint",  "torch.complex", "torch.bool"};
  return global.size() <= kLongestDType &&
         std::any_of(kBegins.begin(), kBegins.end(),
                     [&](std::string_view begin) { return global.starts_with(begin); }) &&
         !global.ends_with("Storage") && global.find('.', 6) == global.npos;
}

bool is_of_metadata(std::string_view global) {
  return std::find(kGlobals.begin(), kGlobals.end(), global) != kGlobals.end() ||
         is_any_dtype(global);
}

/// Name of a tensor and offsets of its chunk.
using ChunkKey = std::pair<std::string, std::vector<std::int64_t>>;

/// The metadata of one checkpoint; every error names it.
class MetadataReader {
 public:
  explicit MetadataReader(const fs::path& folder)
      : folder_(folder), path_((folder / kDistributedMetadata).string()) {}

  StoredCheckpoint read() {
    const std::string bytes = read_text(path_, kLargestCheckpointMetadata);
    const Pickle pickle(bytes, path_, is_of_metadata);
    const PickleRef root = &pickle.root();
    const auto* const state = pickled<PickleDict>(attribute_of(root, "state_dict_metadata"));
    const auto* const storage = pickled<PickleDict>(attribute_of(root, "storage_data"));
    if (!state || !storage) {
      throw refusal("the names and places of the tensors of a distributed checkpoint",
                    "another value");
    }
    for (const auto& [key, value] : storage->items) add_place(key, value);
    StoredCheckpoint stored;
    for (const auto& [key, value] : state->items) add_entry(key, value, stored);
    stored.files.assign(files_.begin(), files_.end());
    return stored;
  }

 private:
  Error refusal(std::string_view expected, std::string_view found) const {
    return malformed(path_, 0, 0, expected, found);
  }

  void add_place(PickleRef index, PickleRef info) {
    const auto* const name = pickled<std::string>(attribute_of(index, "fqn"));
    const auto* const file = pickled<std::string>(attribute_of(info, "relative_path"));
    const auto* const begin = pickled<std::int64_t>(attribute_of(info, "offset"));
    const auto* const size = pickled<std::int64_t>(attribute_of(info, "length"));
    if (!name || !file || !begin || !size || *begin < 0 || *size < 0) {
      throw refusal("a file, an offset and a length of every entry",
                    name ? *name : "another value");
    }
    if (name->size() > kLongestName || file->size() > kLongestName) {
      throw refusal(fmt::format("names of at most {} bytes", kLongestName),
                    fmt::format("{}", std::max(name->size(), file->size())));
    }
    require_inside_folder(*file, path_);
    files_.insert(folder_ / *file);
    const auto offsets = whole_numbers(attribute_of(index, "offset"));
    if (!offsets) return;  // of a value that is no tensor
    if (const auto* const ways = pickled<PickleList>(attribute_of(info, "transform_descriptors"));
        ways && !ways->items.empty()) {
      throw unreadable(path_, fmt::format("'{}' went through an extension of the writer", *name),
                       "Save the checkpoint without extensions");
    }
    CheckpointChunk chunk;
    chunk.file = folder_ / *file;
    chunk.bytes = {static_cast<std::uint64_t>(*begin), static_cast<std::uint64_t>(*size)};
    chunk.is_archive = true;
    if (places_.emplace(ChunkKey{*name, *offsets}, std::move(chunk)).second) return;
    throw refusal(fmt::format("one place of '{}' [{}]", *name, fmt::join(*offsets, ", ")), "two");
  }

  void add_entry(PickleRef key, PickleRef value, StoredCheckpoint& stored) {
    const auto* const name = pickled<std::string>(key);
    if (!name) throw refusal("names of tensors", "another value");
    if (!names_.insert(*name).second) throw refusal("every tensor once", *name + " twice");
    if (type_of(value) == "torch.distributed.checkpoint.metadata.BytesStorageMetadata") {
      ++stored.other_values;
      return;
    }
    if (is_of_optimizer(*name)) {  // and may have a dtype that is not read
      ++stored.optimizer_tensors;
      return;
    }
    const auto* const chunks = pickled<PickleList>(attribute_of(value, "chunks"));
    const auto shape = whole_numbers(attribute_of(value, "size"));
    if (!chunks || !shape) throw refusal(fmt::format("size and chunks of '{}'", *name), "neither");
    CheckpointTensor tensor{*name, dtype_of(*name, value), *shape, {}};
    for (const PickleRef chunk : chunks->items) tensor.chunks.push_back(chunk_of(*name, chunk));
    stored.tensors.push_back(std::move(tensor));
  }

  /// Its properties are a tuple that begins with the dtype.
  DType dtype_of(const std::string& name, PickleRef value) const {
    const auto* const object = pickled<PickleObject>(attribute_of(value, "properties"));
    const auto* const state = object ? pickled<PickleList>(object->state) : nullptr;
    const auto* const type =
        state && !state->items.empty() ? pickled<PickleGlobal>(state->items[0]) : nullptr;
    const auto dtype = type ? dtype_of_global(type->name) : std::nullopt;
    if (!dtype) {
      throw refusal(fmt::format("a dtype of '{}' that is read: {}", name,
                                fmt::join(Names<DType>::values, ", ")),
                    type ? std::string_view(type->name) : "none");
    }
    return *dtype;
  }

  /// Takes the place of the chunk: no other one has it.
  CheckpointChunk chunk_of(const std::string& name, PickleRef value) {
    const auto offsets = whole_numbers(attribute_of(value, "offsets"));
    const auto sizes = whole_numbers(attribute_of(value, "sizes"));
    if (!offsets || !sizes) throw refusal(fmt::format("offsets and sizes of '{}'", name), "none");
    auto place = places_.extract({name, *offsets});
    if (place.empty()) {
      throw refusal(
          fmt::format("the place of one chunk of '{}' at [{}]", name, fmt::join(*offsets, ", ")),
          "none");
    }
    CheckpointChunk chunk = std::move(place.mapped());
    chunk.offsets = *offsets;
    chunk.sizes = *sizes;
    return chunk;
  }

  fs::path folder_;
  std::string path_;
  std::map<ChunkKey, CheckpointChunk> places_;
  std::set<fs::path> files_;
  std::set<std::string> names_;
};

}  // namespace

StoredCheckpoint read_distributed(const fs::path& folder) { return MetadataReader(folder).read(); }

}  // namespace lockstep
