#include "harness/comm/modules.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/comm/backend.h"
#include "reports/base/error.h"
#include "reports/base/installed_path.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

struct Mpi {
  const char* name;
  const char* word;  ///< of LOCKSTEP_MPI
  const char* module;
};
constexpr std::array<Mpi, 2> kMpis{Mpi{"Open MPI", "openmpi", "lockstep_mpi_openmpi.so"},
                                   Mpi{"MPICH", "mpich", "lockstep_mpi_mpich.so"}};
constexpr const char* kNcclModule = "lockstep_nccl.so";

/// Variables that a launcher sets for its ranks. Open MPI's mpirun uses PMIx, too.
struct Trace {
  const char* variable;
  const char* mpi;
};
constexpr std::array<Trace, 4> kTraces{Trace{"OMPI_COMM_WORLD_RANK", "Open MPI"},
                                       Trace{"PMI_RANK", "MPICH"}, Trace{"PMI_FD", "MPICH"},
                                       Trace{"PMIX_RANK", "Open MPI"}};

/// A program of another project has no modules next to it. It uses those of the build that provided
/// its libraries, as long as that exists.
fs::path module_file(const std::string& name) {
  return installed_path(fs::path("lib/lockstep") / name, fs::path(LOCKSTEP_MODULE_FOLDER) / name);
}

bool is_built(const char* module) {
  std::error_code failure;
  return fs::exists(module_file(module), failure);
}

/// The module stays loaded. Its symbols are global, because Open MPI's plugins look for them there.
BackendFactory load(const std::string& name) {
  const fs::path file = module_file(name);
  void* const module = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!module) throw unreadable(file.string(), ::dlerror());
  void* const exported = ::dlsym(module, "lockstep_backend_factory");
  if (!exported) throw unreadable(file.string(), ::dlerror());
  return reinterpret_cast<BackendFactory (*)()>(exported)();
}

const Mpi& mpi_called(const std::string& name) {
  for (const Mpi& mpi : kMpis) {
    if (mpi.name == name) return mpi;
  }
  throw internal_error("an MPI called " + name);
}

}  // namespace

std::vector<std::string> built_mpis() {
  std::vector<std::string> names;
  for (const Mpi& mpi : kMpis) {
    if (is_built(mpi.module)) names.emplace_back(mpi.name);
  }
  return names;
}

bool is_nccl_built() { return is_built(kNcclModule); }

bool are_gpus_shared() {
  const char* const word = std::getenv("LOCKSTEP_SHARE_GPU");
  return word && std::string(word) == "1";
}

std::string launching_mpi(const Environment& environment) {
  if (const char* const chosen = environment("LOCKSTEP_MPI")) {
    for (const Mpi& mpi : kMpis) {
      if (mpi.word == std::string(chosen)) return mpi.name;
    }
    throw bad_value("LOCKSTEP_MPI", chosen, "openmpi or mpich");
  }
  for (const Trace& trace : kTraces) {
    if (environment(trace.variable)) return trace.mpi;
  }
  return {};
}

c10::intrusive_ptr<c10d::Backend> make_mpi(const c10::intrusive_ptr<c10d::Store>& store,
                                           const RankPlacement& placement,
                                           std::chrono::milliseconds timeout) {
  const std::string name = launching_mpi(::getenv);
  if (name.empty()) throw no_mpi_launcher();
  const Mpi& mpi = mpi_called(name);
  if (!is_built(mpi.module)) throw no_module_for(name, built_mpis());
  return load(mpi.module)(store, placement, timeout);
}

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                            const RankPlacement& placement,
                                            std::chrono::milliseconds timeout) {
  return load(kNcclModule)(store, placement, timeout);
}

}  // namespace lockstep
