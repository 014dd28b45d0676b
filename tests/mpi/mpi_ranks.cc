// One rank of the tests of the mpi backend: run_ranks.sh starts as many as a case needs.

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/comm/backend.h"
#include "tests/mpi/mpi_checks.h"

namespace lockstep::mpi_test {

void Checks::expect_error(const std::string& what, const std::function<void()>& call,
                          const std::vector<std::string>& fragments) {
  try {
    call();
    expect(false, what + ": no error");
  } catch (const std::exception& error) {
    const auto* const framework = dynamic_cast<const c10::Error*>(&error);
    const std::string text = framework ? framework->what_without_backtrace() : error.what();
    for (const std::string& fragment : fragments) {
      expect(text.find(fragment) != std::string::npos,
             what + ": no '" + fragment + "' in: " + text);
    }
  }
}

c10::intrusive_ptr<c10d::Backend> Checks::backend(std::chrono::milliseconds timeout) const {
  return make_mpi({}, placement_, timeout);
}

namespace {

int number_of(const char* of_openmpi, const char* of_mpich) {
  const char* word = std::getenv(of_openmpi);
  if (!word) word = std::getenv(of_mpich);
  return word ? std::atoi(word) : -1;
}

RankPlacement own_placement() {
  RankPlacement placement;
  placement.rank = number_of("OMPI_COMM_WORLD_RANK", "PMI_RANK");
  placement.world_size = number_of("OMPI_COMM_WORLD_SIZE", "PMI_SIZE");
  placement.local_rank = placement.rank;
  placement.local_world_size = placement.world_size;
  return placement;
}

/// A launcher kills the others when one leaves without finalizing MPI. Does not wait for a rank
/// that crashed.
void wait_for_results(const Checks& checks) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int rank = 0; rank < checks.placement().world_size; ++rank) {
    const auto file = checks.folder() / ("result-" + std::to_string(rank));
    while (!std::filesystem::exists(file) && std::chrono::steady_clock::now() < limit) {
      std::this_thread::yield();
    }
  }
}

int run(const std::filesystem::path& folder, const std::string& name) {
  static const std::map<std::string, void (*)(Checks&)> cases{
      {"collectives", check_collectives}, {"messages", check_messages},
      {"mismatches", check_mismatches},   {"absent", check_absent},
      {"wrong", check_wrong_flavour},     {"ddp", check_ddp}};
  at::set_num_threads(1);
  Checks checks(own_placement(), folder);
  try {
    cases.at(name)(checks);
  } catch (const std::exception& error) {
    checks.expect(false, std::string("uncaught: ") + error.what());
  }
  const std::string result = "result-" + std::to_string(checks.placement().rank);
  std::ofstream(folder / (result + ".part")) << checks.failures();
  std::filesystem::rename(folder / (result + ".part"), folder / result);
  wait_for_results(checks);
  return checks.failures().empty() ? 0 : 1;
}

}  // namespace

}  // namespace lockstep::mpi_test

/// Ends like a rank of Lockstep: without destructors, which could wait.
int main(int argc, char** argv) {
  if (argc != 3) return 64;
  ::_exit(lockstep::mpi_test::run(argv[1], argv[2]));
}
