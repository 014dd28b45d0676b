#include "harness/train/rank/loaded_torch.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdint>
#include <filesystem>

namespace lockstep {

namespace {

namespace fs = std::filesystem;

int note_torch(dl_phdr_info* library, std::size_t, void* file) {
  if (fs::path(library->dlpi_name).filename() != "libtorch_cpu.so") return 0;
  *static_cast<std::string*>(file) = library->dlpi_name;
  return 1;
}

/// The upper three bytes of torch's ABI version are the major, minor and patch release.
std::string version_of_library() {
  using AbiVersion = std::uint64_t (*)();
  const auto ask = reinterpret_cast<AbiVersion>(::dlsym(RTLD_DEFAULT, "aoti_torch_abi_version"));
  if (!ask) return {};
  const std::uint64_t version = ask();
  return fmt::format("{}.{}.{}", version >> 56, version >> 48 & 0xff, version >> 40 & 0xff);
}

}  // namespace

LoadedTorch loaded_torch() {
  LoadedTorch torch;
  ::dl_iterate_phdr(note_torch, &torch.file);
  std::error_code failure;
  const fs::path resolved = fs::weakly_canonical(torch.file, failure);
  if (!failure) torch.file = resolved;
  torch.version = version_of_library();
  return torch;
}

}  // namespace lockstep
