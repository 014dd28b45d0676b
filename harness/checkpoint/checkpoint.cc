#include "harness/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/checkpoint/model_names.h"
#include "harness/checkpoint/pickled_torch.h"
#include "harness/checkpoint/read_checkpoint.h"
#include "harness/record/shard_runs.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/plain_text.h"
#include "reports/base/regular_file.h"
#include "reports/base/shell_word.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostChunks = 1 << 16;  // of a tensor
/// Others in the same rows with which a chunk is compared, on average.
constexpr std::size_t kMostBeside = 1 << 10;

constexpr std::array<std::string_view, 5> kSavedExtensions{".pt", ".pth", ".bin", ".ckpt", ".tar"};

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_safetensors(const fs::path& path) { return path.extension() == ".safetensors"; }

/// A file that torch.save wrote, by its name; a pack of Lockstep ends in ".gz".
bool is_named_like_saved(const fs::path& path) {
  return is_among(kSavedExtensions, path.extension().string());
}

/// The same in a folder, where ".bin" may be anything.
bool is_saved_in_folder(const fs::path& path) {
  return is_named_like_saved(path) &&
         (path.extension() != ".bin" || path.filename().string().starts_with("pytorch_model"));
}

/// A file that torch.save wrote, by its name or by its first bytes: a zip archive, or in older
/// files a pickle of protocol 2.
bool is_saved_file(const fs::path& path) {
  if (is_named_like_saved(path)) return true;
  std::error_code failure;
  const std::uint64_t size = fs::file_size(path, failure);
  if (failure || size < 4 || !fs::is_regular_file(path, failure)) return false;
  const std::string begin = RegularFile(path, kLargestCheckpointFile).read(0, 4);
  return begin == "PK\3\4" || begin.starts_with("\x80\x02");
}

/// The first file of a folder that `is_wanted`; empty: it has none.
template <class Wanted>
fs::path first_file(const fs::path& folder, const Wanted& is_wanted) {
  std::error_code failure;
  fs::path first;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    if (is_wanted(entry.path()) && (first.empty() || entry.path() < first)) first = entry.path();
  }
  return first;
}

bool is_distributed_part(const fs::path& path) { return path.extension() == ".distcp"; }

bool is_of_checkpoint(const fs::path& path) {
  return is_safetensors(path) || is_saved_in_folder(path) || is_distributed_part(path) ||
         path.filename() == kDistributedMetadata;
}

/// A pickle may run any code, so Lockstep reads none of such a file. The command reads it with
/// weights_only, which runs none either, and needs no package besides torch.
Error saved_by_torch(const fs::path& path) {
  fs::path converted = path;
  converted.replace_extension(".dcp");
  return unreadable(
      path.string(), "it is a file of torch.save: a pickle, which can run any code",
      fmt::format("Convert it with `python -c 'import sys, torch, torch.distributed.checkpoint as "
                  "dcp; dcp.save(torch.load(sys.argv[1], map_location=\"cpu\", "
                  "weights_only=True), checkpoint_id=sys.argv[2])' {} {}` and give {}",
                  shell_word(path.string()), shell_word(converted.string()),
                  shell_word(converted.string())));
}

class Coverage {
 public:
  Coverage(const CheckpointTensor& tensor, const fs::path& path) : tensor_(tensor), path_(path) {}

  /// Throws unless the chunks are boxes in the tensor that cover it once.
  void require() const {
    if (tensor_.shape.size() > kMostDimensions || tensor_.chunks.size() > kMostChunks ||
        !stored_count(tensor_.shape)) {
      throw refusal(fmt::format("a tensor of at most {} dimensions, {} chunks and 2^63 bytes",
                                kMostDimensions, kMostChunks),
                    fmt::format("{} chunks of [{:.80}]", tensor_.chunks.size(),
                                fmt::format("{}", fmt::join(tensor_.shape, ", "))));
    }
    for (const CheckpointChunk& chunk : tensor_.chunks) {
      if (is_in_tensor(chunk)) continue;
      throw refusal(fmt::format("chunks in its shape [{}]", fmt::join(tensor_.shape, ", ")),
                    in_words(chunk));
    }
    require_apart();
    std::int64_t elements = 0;  // not more than the tensor's, as they lie apart in it
    for (const CheckpointChunk& chunk : tensor_.chunks) elements += element_count(chunk.sizes);
    if (elements != element_count(tensor_.shape)) {
      throw refusal(fmt::format("chunks of all its {} elements", element_count(tensor_.shape)),
                    fmt::format("{}", elements));
    }
  }

 private:
  Error refusal(std::string_view expected, std::string_view found) const {
    return malformed(path_.string(), 0, 0, fmt::format("'{}': {}", tensor_.name, expected), found);
  }

  static std::string in_words(const CheckpointChunk& chunk) {
    return fmt::format("[{}] at [{}]", fmt::join(chunk.sizes, ", "),
                       fmt::join(chunk.offsets, ", "));
  }

  bool is_in_tensor(const CheckpointChunk& chunk) const {
    if (chunk.sizes.size() != tensor_.shape.size()) return false;
    if (chunk.offsets.size() != tensor_.shape.size()) return false;
    for (std::size_t d = 0; d < tensor_.shape.size(); ++d) {
      const std::int64_t size = chunk.sizes[d], offset = chunk.offsets[d];
      if (size < 0 || offset < 0 || offset > tensor_.shape[d] - size) return false;
    }
    return true;
  }

  using Chunks = std::vector<const CheckpointChunk*>;

  /// A chunk is compared with those that begin before it ends, along the dimension in which chunks
  /// begin at the most places: columns are not compared with each other as rows would not be.
  void require_apart() const {
    if (tensor_.shape.empty()) return;
    Chunks sorted;
    for (const CheckpointChunk& chunk : tensor_.chunks) {
      if (element_count(chunk.sizes) > 0) sorted.push_back(&chunk);
    }
    const std::size_t along = dimension_of_most_places(sorted);
    std::sort(sorted.begin(), sorted.end(), [along](const auto* a, const auto* b) {
      return a->offsets[along] < b->offsets[along];
    });
    std::size_t left = sorted.size() * kMostBeside;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const std::int64_t end = sorted[i]->offsets[along] + sorted[i]->sizes[along];
      for (std::size_t j = i + 1; j < sorted.size() && sorted[j]->offsets[along] < end; ++j) {
        if (left-- == 0) throw refusal("fewer chunks side by side", "more");
        if (!overlap(*sorted[i], *sorted[j])) continue;
        throw refusal("chunks that do not overlap",
                      in_words(*sorted[i]) + " and " + in_words(*sorted[j]));
      }
    }
  }

  std::size_t dimension_of_most_places(const Chunks& chunks) const {
    std::vector<std::size_t> places;
    for (std::size_t d = 0; d < tensor_.shape.size(); ++d) {
      places.push_back(places_along(d, chunks));
    }
    return static_cast<std::size_t>(std::max_element(places.begin(), places.end()) -
                                    places.begin());
  }

  /// How many places there are along a dimension at which chunks begin.
  static std::size_t places_along(std::size_t d, const Chunks& chunks) {
    std::vector<std::int64_t> begins;
    begins.reserve(chunks.size());
    for (const CheckpointChunk* chunk : chunks) begins.push_back(chunk->offsets[d]);
    std::sort(begins.begin(), begins.end());
    return static_cast<std::size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
  }

  static bool overlap(const CheckpointChunk& a, const CheckpointChunk& b) {
    for (std::size_t d = 0; d < a.sizes.size(); ++d) {
      const bool is_apart =
          a.offsets[d] + a.sizes[d] <= b.offsets[d] || b.offsets[d] + b.sizes[d] <= a.offsets[d];
      if (is_apart) return false;
    }
    return true;
  }

  const CheckpointTensor& tensor_;
  const fs::path& path_;
};

std::string title_of(const StoredCheckpoint& stored, bool is_distributed) {
  const std::size_t count = stored.files.size();
  std::string files =
      count == 1 ? stored.files[0].filename().string() : fmt::format("{} safetensors files", count);
  if (!is_distributed) return files;
  return fmt::format("distributed checkpoint in {}", counted(count, "file"));
}

Checkpoint checked(const fs::path& path, StoredCheckpoint stored, bool is_distributed) {
  Checkpoint checkpoint;
  checkpoint.path = path;
  checkpoint.title = title_of(stored, is_distributed);
  checkpoint.optimizer_tensors = stored.optimizer_tensors;
  checkpoint.other_values = stored.other_values;
  for (CheckpointTensor& tensor : stored.tensors) {
    if (is_of_optimizer(tensor.name)) {
      ++checkpoint.optimizer_tensors;
      continue;
    }
    Coverage(tensor, path).require();
    checkpoint.tensors.push_back(std::move(tensor));
  }
  std::sort(checkpoint.tensors.begin(), checkpoint.tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return checkpoint;
}

Checkpoint open_folder(const fs::path& folder) {
  if (!first_file(folder, [](const fs::path& path) {
         return path.filename() == kDistributedMetadata;
       }).empty()) {
    return checked(folder, read_distributed(folder), true);
  }
  if (!first_file(folder, is_distributed_part).empty()) {
    throw unreadable(folder.string(),
                     fmt::format("it has parts of a distributed checkpoint and no {}, which torch "
                                 "writes last",
                                 kDistributedMetadata),
                     "Give a checkpoint that was saved completely");
  }
  const auto files = safetensors_files_of(folder);
  if (!files.empty()) return checked(folder, read_safetensors_files(files), false);
  if (const fs::path saved = first_file(folder, is_saved_in_folder); !saved.empty()) {
    throw saved_by_torch(saved);
  }
  throw unreadable(folder.string(), "it holds no checkpoint",
                   "Give a safetensors file, a folder of some, or a distributed checkpoint");
}

}  // namespace

std::optional<CheckpointTensor> stacked(const std::vector<const CheckpointTensor*>& parts) {
  CheckpointTensor whole = *parts.front();
  if (whole.shape.empty()) return std::nullopt;
  for (const CheckpointTensor* part : std::span(parts).subspan(1)) {
    const bool fits =
        part->dtype == whole.dtype && part->shape.size() == whole.shape.size() &&
        std::equal(part->shape.begin() + 1, part->shape.end(), whole.shape.begin() + 1);
    if (!fits) return std::nullopt;
    for (CheckpointChunk chunk : part->chunks) {
      chunk.offsets[0] += whole.shape[0];
      whole.chunks.push_back(std::move(chunk));
    }
    whole.shape[0] += part->shape[0];
  }
  return whole;
}

bool is_checkpoint(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (!fs::exists(status)) return false;
  if (!fs::is_directory(status)) return is_safetensors(path) || is_saved_file(path);
  return !fs::exists(path / "record.json", failure) && !first_file(path, is_of_checkpoint).empty();
}

Checkpoint open_checkpoint(const fs::path& path) {
  std::error_code failure;
  if (fs::is_directory(path, failure)) return open_folder(path);
  if (!is_safetensors(path)) throw saved_by_torch(path);
  return checked(path, read_safetensors_files({path}), false);
}

}  // namespace lockstep
