#include "harness/record/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include "harness/record/digest.h"
#include "reports/base/secrets.h"

namespace lockstep {

namespace {

/// Variables that affect how ranks start, connect, compute or communicate, and those by which a
/// report links to the source of the commit that was run.
constexpr std::array<std::string_view, 41> kAllowed{"CUBLAS_WORKSPACE_CONFIG",
                                                    "CUDA_LAUNCH_BLOCKING",
                                                    "CUDA_VISIBLE_DEVICES",
                                                    "GITHUB_REPOSITORY",
                                                    "GITHUB_RUN_ID",
                                                    "GITHUB_SERVER_URL",
                                                    "GITHUB_SHA",
                                                    "GLOO_SOCKET_IFNAME",
                                                    "GROUP_RANK",
                                                    "LOCAL_RANK",
                                                    "LOCAL_WORLD_SIZE",
                                                    "LOCKSTEP_CATALOGUE",
                                                    "LOCKSTEP_MPI",
                                                    "LOCKSTEP_MPI_ORDER",
                                                    "LOCKSTEP_SHARE_GPU",
                                                    "MASTER_ADDR",
                                                    "MASTER_PORT",
                                                    "MKL_NUM_THREADS",
                                                    "NCCL_ALGO",
                                                    "NCCL_DEBUG",
                                                    "NCCL_IB_DISABLE",
                                                    "NCCL_P2P_DISABLE",
                                                    "NCCL_PROTO",
                                                    "NCCL_SHM_DISABLE",
                                                    "NCCL_SOCKET_IFNAME",
                                                    "NVIDIA_TF32_OVERRIDE",
                                                    "OMPI_COMM_WORLD_RANK",
                                                    "OMPI_COMM_WORLD_SIZE",
                                                    "OMP_NUM_THREADS",
                                                    "PMI_RANK",
                                                    "PMI_SIZE",
                                                    "RANK",
                                                    "SLURM_JOB_NUM_NODES",
                                                    "SLURM_NTASKS",
                                                    "SLURM_PROCID",
                                                    "TORCH_CPP_LOG_LEVEL",
                                                    "TORCH_DISTRIBUTED_DEBUG",
                                                    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
                                                    "TORCH_NCCL_BLOCKING_WAIT",
                                                    "TORCH_SHOW_CPP_STACKTRACES",
                                                    "WORLD_SIZE"};

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

std::vector<std::pair<std::string, std::string>> allowed_variables(
    const std::vector<std::string>& variables) {
  std::vector<std::pair<std::string, std::string>> allowed;
  for (const std::string& variable : variables) {
    const auto equals = variable.find('=');
    const std::string name = variable.substr(0, equals);
    if (equals == std::string::npos ||
        !std::binary_search(kAllowed.begin(), kAllowed.end(), name)) {
      continue;
    }
    allowed.emplace_back(name, mask_value(name, variable.substr(equals + 1)));
  }
  std::sort(allowed.begin(), allowed.end());
  return allowed;
}

RunEnvironment describe_environment(const std::string& started_utc) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable) variables.emplace_back(*variable);
  RunEnvironment environment;
  environment.started_utc = started_utc;
  environment.host = host_name();
  environment.digest = kDigestName;
  environment.variables = allowed_variables(variables);
  return environment;
}

}  // namespace lockstep
