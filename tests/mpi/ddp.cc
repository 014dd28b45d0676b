#include "harness/train/ddp/ddp.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <fstream>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/nn/module.h"
#include "tests/mpi/mpi_checks.h"

namespace lockstep::mpi_test {

namespace {

namespace fs = std::filesystem;

/// Serves a rendezvous on a free port until the process ends; returns the port.
int serve_store() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  static std::vector<c10::intrusive_ptr<c10d::TCPStore>> served;
  served.push_back(c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options));
  return served.back()->getPort();
}

/// The placement with its own rendezvous, which rank 0 publishes in a file.
RankPlacement placement_at(const Checks& checks, const std::string& name) {
  RankPlacement placement = checks.placement();
  const fs::path file = checks.folder() / ("port-" + name);
  if (placement.rank == 0) {
    placement.rendezvous.port = serve_store();
    std::ofstream(file.string() + ".part") << placement.rendezvous.port;
    fs::rename(file.string() + ".part", file);
  } else {
    while (!fs::exists(file)) std::this_thread::yield();
    std::ifstream(file) >> placement.rendezvous.port;
  }
  return placement;
}

class TwoLayers : public Module {
 public:
  TwoLayers() {
    lower_ = register_module("lower", std::make_shared<Linear>(8, 64, cpu_generator(3)));
    upper_ = register_module("upper", std::make_shared<Linear>(64, 4, cpu_generator(4)));
  }
  at::Tensor forward(const at::Tensor& input) override {
    return (*upper_)((*lower_)(input).tanh());
  }

 private:
  std::shared_ptr<Linear> lower_, upper_;
};

/// Gradients of three steps, in small buckets.
std::vector<at::Tensor> gradients_over(const Checks& checks, lockstep::Backend backend) {
  const int rank = checks.placement().rank;
  CollectiveLog log(checks.folder() / fmt::format("{}-{}", name(backend), rank), rank);
  ProcessGroup group(placement_at(checks, std::string(name(backend))),
                     {backend, std::chrono::seconds(30)}, log);
  TwoLayers model;
  DdpOptions options;
  options.bucket_bytes = 256;
  DistributedDataParallel ddp(model, group, options);
  const at::Generator generator = cpu_generator(static_cast<std::uint64_t>(10 + group.rank()));
  std::vector<at::Tensor> all;
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    ddp.forward(at::randn({4, 8}, generator, at::TensorOptions())).pow(2).mean().backward();
    for (const at::Tensor& parameter : model.parameters()) all.push_back(parameter.grad().clone());
  }
  group.barrier();
  group.shut_down();
  return all;
}

}  // namespace

void check_ddp(Checks& checks) {
  const std::vector<at::Tensor> over_gloo = gradients_over(checks, lockstep::Backend::gloo);
  const std::vector<at::Tensor> over_mpi = gradients_over(checks, lockstep::Backend::mpi);
  checks.expect(over_gloo.size() == 12 && over_mpi.size() == 12, "four gradients in three steps");
  for (std::size_t i = 0; i < over_gloo.size(); ++i) {
    checks.expect(at::equal(over_gloo[i], over_mpi[i]),
                  "gradient " + std::to_string(i) + " over Gloo and MPI");
  }
}

}  // namespace lockstep::mpi_test
