#include "harness/launch/gpus.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "harness/launch/probe.h"

namespace lockstep {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
constexpr const char* kInstallDriver =
    "install the NVIDIA driver; in a container, start it with its GPUs (docker run --gpus all)";
constexpr const char* kSeeDriver = "see that nvidia-smi works, then try again";

// Output of the child, one item per line; a driver may print lines of its own in between.
constexpr std::string_view kName = "lockstep-gpu-name: ";
constexpr std::string_view kProblem = "lockstep-gpu-problem: ";
constexpr std::string_view kRemedy = "lockstep-gpu-remedy: ";

void say(std::string_view what, const std::string& text) {
  fmt::print("{}{}\n", what, text);
  std::fflush(stdout);
}

int refuse(const std::string& problem, const std::string& remedy) {
  say(kProblem, problem);
  say(kRemedy, remedy);
  return 0;
}

/// The functions of the driver, declared as documented; CUDA's headers are not needed.
struct Driver {
  using Init = int (*)(unsigned flags);
  using GetCount = int (*)(int* count);
  using Get = int (*)(int* device, int ordinal);
  using GetName = int (*)(char* name, int size, int device);
  using GetErrorName = int (*)(int error, const char** name);

  explicit Driver(void* library)
      : init(reinterpret_cast<Init>(::dlsym(library, "cuInit"))),
        get_count(reinterpret_cast<GetCount>(::dlsym(library, "cuDeviceGetCount"))),
        get(reinterpret_cast<Get>(::dlsym(library, "cuDeviceGet"))),
        get_name(reinterpret_cast<GetName>(::dlsym(library, "cuDeviceGetName"))),
        get_error_name(reinterpret_cast<GetErrorName>(::dlsym(library, "cuGetErrorName"))) {}

  bool is_complete() const { return init && get_count && get && get_name; }

  std::string words_of(int error) const {
    const char* name = nullptr;
    if (!get_error_name || get_error_name(error, &name) != 0 || !name) {
      return fmt::format("error {}", error);
    }
    return fmt::format("error {} ({})", error, name);
  }

  Init init;
  GetCount get_count;
  Get get;
  GetName get_name;
  GetErrorName get_error_name;
};

int refuse_without_library() {
  const std::string why = ::dlerror();
  if (why.find("No such file") != why.npos && why.starts_with(kLibrary)) {
    return refuse(fmt::format("there is no driver library ({})", kLibrary), kInstallDriver);
  }
  return refuse(fmt::format("the driver library cannot be loaded: {}", why), kInstallDriver);
}

int refuse_without_device() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible) return refuse("the driver knows no device", kSeeDriver);
  return refuse(fmt::format("the driver shows no device with CUDA_VISIBLE_DEVICES='{}'", visible),
                "unset CUDA_VISIBLE_DEVICES, or name devices that exist");
}

int ask_driver() {
  constexpr int kNoDevice = 100;
  void* const library = ::dlopen(kLibrary, RTLD_NOW);
  if (!library) return refuse_without_library();
  const Driver driver(library);
  if (!driver.is_complete()) return refuse("the driver library lacks functions", kInstallDriver);
  int count = 0;
  int error = driver.init(0);
  if (error == 0) error = driver.get_count(&count);
  if (error == kNoDevice || (error == 0 && count == 0)) return refuse_without_device();
  for (int ordinal = 0; error == 0 && ordinal < count; ++ordinal) {
    int device = 0;
    std::array<char, 256> name{};
    error = driver.get(&device, ordinal);
    if (error == 0) error = driver.get_name(name.data(), static_cast<int>(name.size()) - 1, device);
    if (error == 0) say(kName, name.data());
  }
  return error == 0 ? 0 : refuse("the driver says " + driver.words_of(error), kSeeDriver);
}

Gpus understood(const std::string& answer) {
  Gpus gpus;
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kName)) gpus.names.push_back(line.substr(kName.size()));
    if (line.starts_with(kProblem)) gpus.problem = line.substr(kProblem.size());
    if (line.starts_with(kRemedy)) gpus.remedy = line.substr(kRemedy.size());
  }
  return gpus;
}

}  // namespace

Gpus find_gpus(std::chrono::milliseconds limit) {
  const Probe asked = probe(ask_driver, limit);
  Gpus gpus = understood(asked.output);
  if (asked.end.kind != ExitKind::finished) {
    gpus.problem = "the process that queried the driver " + exit_in_words(asked.end);
    gpus.remedy = kSeeDriver;
  } else if (gpus.names.empty() && gpus.problem.empty()) {
    gpus.problem = "the driver ended the process that queried it";
    gpus.remedy = kSeeDriver;
  }
  if (!gpus.problem.empty()) gpus.names.clear();
  return gpus;
}

}  // namespace lockstep
