// A training loop of LibTorch on several ranks, which says whether they stay in lockstep:
//
//   for rank in 0 1; do RANK=$rank WORLD_SIZE=2 ./libtorch_loop runs/one "$PWD/store" & done; wait
//   lockstep report runs/one
//
// With a third argument, --forget-reduction, each rank keeps its own gradients.

#include <torch/torch.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

#include "harness/watch/torch/watch.h"

namespace {

int number_in(const char* variable) {
  const char* const value = std::getenv(variable);
  return value ? std::atoi(value) : 0;
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> join_group(const std::string& store, int rank,
                                                      int world_size) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::FileStore>(store, world_size), rank, world_size, options);
}

void average_gradients(const c10::intrusive_ptr<c10d::ProcessGroupGloo>& group,
                       const torch::nn::Sequential& model) {
  for (const torch::Tensor& parameter : model->parameters()) {
    std::vector<torch::Tensor> gradient{parameter.grad()};
    group->allreduce(gradient)->wait();
    gradient[0].div_(group->getSize());
  }
}

void train(const std::string& folder, const std::string& store, bool reduces) {
  const int rank = number_in("RANK");
  const int world_size = number_in("WORLD_SIZE");
  const auto group = join_group(store, rank, world_size);
  torch::manual_seed(0);  // all ranks begin with the same parameters
  torch::nn::Sequential model(torch::nn::Linear(8, 16), torch::nn::ReLU(),
                              torch::nn::Linear(16, 4));
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  lockstep::Watch watch({folder, rank, world_size, "libtorch_loop"});
  for (int step = 1; step <= 5; ++step) {
    torch::manual_seed(100 * step + rank);  // each rank has samples of its own
    optimizer.zero_grad();
    model->forward(torch::randn({6, 8})).pow(2).mean().backward();
    watch.after_backward(model);
    if (reduces) average_gradients(group, model);
    watch.before_step(model);
    optimizer.step();
    watch.after_step(model);
  }
  watch.close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: libtorch_loop FOLDER STORE [--forget-reduction]\n";
    return 64;
  }
  try {
    torch::set_num_threads(1);
    train(argv[1], argv[2], argc == 3);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
