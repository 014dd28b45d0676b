#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "reports/base/error.h"
#include "tests/mpi/mpi_checks.h"

namespace lockstep::mpi_test {

namespace {

using Backend = c10::intrusive_ptr<c10d::Backend>;
using Tensors = std::vector<at::Tensor>;
using Work = c10::intrusive_ptr<c10d::Work>;
using Call = std::function<Work(const Backend&, int ranks)>;

struct NamedCall {
  std::string words;  ///< as in the error
  Call call;
};

Work all_reduce(const Backend& backend, std::int64_t elements, at::ScalarType dtype,
                c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM) {
  Tensors tensors{at::zeros({elements}, dtype)};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  return backend->allreduce(tensors, options);
}

Work broadcast(const Backend& backend, int root) {
  Tensors tensors{at::zeros({6}, at::kFloat)};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  return backend->broadcast(tensors, options);
}

NamedCall all_reducing(std::int64_t elements = 6, at::ScalarType dtype = at::kFloat,
                       const char* name = "float32") {
  return {"allreduce (sum) of " + std::string(name) + ", " + std::to_string(elements) + " elements",
          [=](const Backend& backend, int) { return all_reduce(backend, elements, dtype); }};
}

NamedCall broadcasting(int root) {
  return {"broadcast from rank " + std::to_string(root) + " of float32, 6 elements",
          [root](const Backend& backend, int) { return broadcast(backend, root); }};
}

NamedCall all_gathering() {
  return {"allgather_base of float32, 6 elements", [](const Backend& backend, int ranks) {
            at::Tensor input = at::zeros({6}, at::kFloat);
            at::Tensor output = at::zeros({6 * ranks}, at::kFloat);
            return backend->_allgather_base(output, input, {});
          }};
}

NamedCall reduce_scattering() {
  return {"reduce_scatter_base (sum) of float32, 6 elements",
          [](const Backend& backend, int ranks) {
            at::Tensor input = at::zeros({6 * ranks}, at::kFloat);
            at::Tensor output = at::zeros({6}, at::kFloat);
            return backend->_reduce_scatter_base(output, input, {});
          }};
}

NamedCall meeting() {
  return {"barrier", [](const Backend& backend, int) { return backend->barrier({}); }};
}

std::vector<std::pair<NamedCall, NamedCall>> pairs_that_differ() {
  const std::vector<NamedCall> kinds{all_reducing(), broadcasting(0), all_gathering(),
                                     reduce_scattering(), meeting()};
  std::vector<std::pair<NamedCall, NamedCall>> pairs;
  for (std::size_t a = 0; a < kinds.size(); ++a) {
    for (std::size_t b = a + 1; b < kinds.size(); ++b) pairs.emplace_back(kinds[a], kinds[b]);
  }
  const NamedCall maximum{"allreduce (max) of float32, 6 elements",
                          [](const Backend& backend, int) {
                            return all_reduce(backend, 6, at::kFloat, c10d::ReduceOp::MAX);
                          }};
  pairs.emplace_back(all_reducing(6), all_reducing(7));
  pairs.emplace_back(all_reducing(6), all_reducing(6, at::kInt, "int32"));
  pairs.emplace_back(all_reducing(6), all_reducing(0));
  pairs.emplace_back(broadcasting(0), broadcasting(1));
  pairs.emplace_back(all_reducing(6), maximum);
  return pairs;
}

/// Rank 1's second collective differs from the others'.
void check_mismatch(Checks& checks, const NamedCall& common, const NamedCall& other) {
  const int ranks = checks.placement().world_size;
  const Backend backend = checks.backend(std::chrono::seconds(20));
  all_reduce(backend, 3, at::kFloat)->wait();
  const std::string what = common.words + " against " + other.words;
  const auto start = std::chrono::steady_clock::now();
  checks.expect_error(
      what, [&] { (checks.placement().rank == 1 ? other : common).call(backend, ranks)->wait(); },
      {"number 2 of this rank's collectives", "do not match",
       "ranks 0 and 2 called " + common.words, "rank 1 called " + other.words});
  checks.expect(std::chrono::steady_clock::now() - start < std::chrono::seconds(10),
                what + ": told at once");
  checks.expect_error(what + ", afterwards", [&] { all_reduce(backend, 3, at::kFloat)->wait(); },
                      {"number 3", "cannot be done after", "rank 1 called " + other.words});
}

void check_uneven_alltoall(Checks& checks) {
  const Backend backend = checks.backend();
  const int me = checks.placement().rank;
  at::Tensor input = at::zeros({3}, at::kFloat);
  at::Tensor output = at::zeros({me == 2 ? 4 : 3}, at::kFloat);
  std::vector<std::int64_t> sent{1, 1, 1};
  std::vector<std::int64_t> received{me == 2 ? 2 : 1, 1, 1};
  checks.expect_error("alltoall",
                      [&] { backend->alltoall_base(output, input, received, sent, {})->wait(); },
                      {"rank 0 sends 1 element to rank 2, which expects 2 elements"});
}

void wait_for_results(const Checks& checks, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    const auto file = checks.folder() / ("result-" + std::to_string(rank));
    while (!std::filesystem::exists(file)) std::this_thread::yield();
  }
}

/// A message without a sender.
void check_absent_message(Checks& checks) {
  const Backend backend = checks.backend(std::chrono::milliseconds(300));
  if (checks.placement().rank != 0) return;
  Tensors tensors{at::zeros({4}, at::kDouble)};
  checks.expect_error("recv", [&] { backend->recv(tensors, 1, 3)->wait(); },
                      {"recv from rank 1 of float64, 4 elements", "not finished after 300 ms",
                       "its peer has not answered"});
}

}  // namespace

void check_mismatches(Checks& checks) {
  for (const auto& [common, other] : pairs_that_differ()) {
    check_mismatch(checks, common, other);
    check_mismatch(checks, other, common);
  }
  check_uneven_alltoall(checks);
  const Backend backend = checks.backend();
  all_reduce(backend, 3, at::kFloat)->wait();
  backend->shutdown();
}

void check_absent(Checks& checks) {
  const Backend backend = checks.backend(std::chrono::milliseconds(500));
  check_absent_message(checks);
  if (checks.placement().rank == 2) return wait_for_results(checks, 2);
  const auto start = std::chrono::steady_clock::now();
  const Work queued = all_reduce(backend, 4, at::kFloat);
  const Work behind = backend->barrier({});
  checks.expect_error("allreduce", [&] { queued->wait(); },
                      {"allreduce (sum) of float32, 4 elements", "number 1 ",
                       "not finished after 500 ms", "rank 2 has not called a collective"});
  checks.expect_error(
      "barrier behind it", [&] { behind->wait(); },
      {"barrier", "number 2 ", "cannot be done after", "not finished after 500 ms"});
  backend->shutdown();
  const auto took = std::chrono::steady_clock::now() - start;
  checks.expect(took >= std::chrono::milliseconds(500), "it waits as long as it may");
  checks.expect(took < std::chrono::seconds(5), "it does not wait longer");
}

void check_wrong_flavour(Checks& checks) {
  const std::string of_launcher = std::getenv("LOCKSTEP_TEST_MPI");
  const bool is_openmpi = of_launcher == "openmpi";
  ::setenv("LOCKSTEP_MPI", is_openmpi ? "mpich" : "openmpi", 1);
  checks.expect_error("the other MPI", [&] { checks.backend(); },
                      {"The launcher started 3 ranks", "sees a world of 1",
                       is_openmpi ? "loaded module of MPICH" : "loaded module of Open MPI",
                       is_openmpi ? "mpirun.mpich" : "mpirun.openmpi"});
  ::setenv("LOCKSTEP_MPI", "lam", 1);
  checks.expect_error("no MPI", [&] { checks.backend(); }, {"LOCKSTEP_MPI", "openmpi or mpich"});
  for (const char* variable :
       {"LOCKSTEP_MPI", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMI_FD", "PMIX_RANK"}) {
    ::unsetenv(variable);
  }
  checks.expect_error("no launcher", [&] { checks.backend(); },
                      {"ranks that MPI's own launcher started"});
}

}  // namespace lockstep::mpi_test
