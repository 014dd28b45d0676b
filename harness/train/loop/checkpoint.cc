#include "harness/train/loop/checkpoint.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/observe/look_at.h"
#include "harness/record/snapshots.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// The entries of Python's `state_dict`.
std::vector<NamedTensor> state_of(const Module& module) {
  std::vector<NamedTensor> state = module.named_parameters();
  for (NamedTensor& buffer : module.named_buffers()) state.push_back(std::move(buffer));
  return state;
}

SnapshotTensor kept(const NamedTensor& entry) {
  SnapshotTensor kept;
  const Observation seen = look_at(entry.tensor, std::nullopt, &kept.bytes);
  if (!seen.not_comparable.empty()) {
    throw internal_error(fmt::format("'{}' cannot be saved: {}", entry.name, seen.not_comparable));
  }
  kept.dtype = *parse<DType>(seen.dtype);
  kept.shape = seen.local_shape;
  return kept;
}

std::string words(std::string_view dtype, at::IntArrayRef shape) {
  return fmt::format("{} of shape [{}]", dtype, fmt::join(shape, ", "));
}

/// The tensor of the file that `entry` is loaded from.
SnapshotTensor& find_for(const NamedTensor& entry, std::map<std::string, SnapshotTensor>& file,
                         const fs::path& path) {
  const std::string wanted =
      words(c10::getDtypeNames(entry.tensor.scalar_type()).first, entry.tensor.sizes());
  const std::string expected = fmt::format("a tensor '{}', {}", entry.name, wanted);
  const auto found = file.find(entry.name);
  if (found == file.end()) throw malformed(path.string(), 0, 0, expected, "");
  const std::string given = words(name(found->second.dtype), found->second.shape);
  if (given != wanted) throw malformed(path.string(), 0, 0, expected, given);
  return found->second;
}

void require_known(const std::map<std::string, SnapshotTensor>& file,
                   const std::vector<NamedTensor>& state, const fs::path& path) {
  std::set<std::string> names;
  for (const NamedTensor& entry : state) names.insert(entry.name);
  for (const auto& [name, tensor] : file) {
    if (!names.contains(name)) throw malformed(path.string(), 0, 0, "tensors of the module", name);
  }
}

}  // namespace

void save_checkpoint(const Module& module, const fs::path& path) {
  std::map<std::string, SnapshotTensor> file;
  for (const NamedTensor& entry : state_of(module)) {
    if (!file.emplace(entry.name, kept(entry)).second) {
      throw internal_error(fmt::format("two tensors of a module are called '{}'", entry.name));
    }
  }
  write_safetensors(path, file);
}

void load_checkpoint(Module& module, const fs::path& path) {
  std::map<std::string, SnapshotTensor> file = read_safetensors(path);
  std::vector<NamedTensor> state = state_of(module);
  std::vector<std::byte*> sources;
  for (const NamedTensor& entry : state)
    sources.push_back(find_for(entry, file, path).bytes.data());
  require_known(file, state, path);
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < state.size(); ++i) {
    at::Tensor& tensor = state[i].tensor;
    tensor.copy_(at::from_blob(sources[i], tensor.sizes(), at::dtype(tensor.scalar_type())));
  }
}

}  // namespace lockstep
