#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cstdlib>
#include <limits>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "harness/train/autograd/activation_memory.h"
#include "harness/train/nn/module.h"
#include "tests/mpi/mpi_checks.h"

namespace lockstep::mpi_test {

namespace {

using c10d::ReduceOp;
using Backend = c10::intrusive_ptr<c10d::Backend>;
using Tensors = std::vector<at::Tensor>;

constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar,
                                      at::kByte,  at::kShort,  at::kInt,  at::kLong,     at::kBool};
constexpr ReduceOp::RedOpType kReductions[] = {ReduceOp::SUM, ReduceOp::AVG, ReduceOp::PRODUCT,
                                               ReduceOp::MIN, ReduceOp::MAX, ReduceOp::BAND,
                                               ReduceOp::BOR, ReduceOp::BXOR};

/// The value of rank `rank`, which every rank can compute. Whole numbers use their full range.
at::Tensor value_of(int rank, at::ScalarType dtype, std::int64_t elements, int salt = 0) {
  const at::Generator generator = cpu_generator(static_cast<std::uint64_t>(100 * salt + rank + 1));
  if (at::isFloatingType(dtype)) return at::randn({elements}, generator, at::kFloat).to(dtype);
  if (dtype == at::kBool) return at::randint(0, 2, {elements}, generator, at::kLong).to(dtype);
  return at::randint(std::numeric_limits<std::int32_t>::min(),
                     std::numeric_limits<std::int32_t>::max(), {elements}, generator, at::kLong)
      .mul_(dtype == at::kLong ? 3'000'000'019 : 1)
      .to(dtype);
}

Tensors values_of_all(int ranks, at::ScalarType dtype, std::int64_t elements, int salt = 0) {
  Tensors values;
  for (int rank = 0; rank < ranks; ++rank) values.push_back(value_of(rank, dtype, elements, salt));
  return values;
}

at::Tensor combined(const at::Tensor& a, const at::Tensor& b, ReduceOp::RedOpType op) {
  const bool is_bool = a.scalar_type() == at::kBool;
  switch (op) {
    case ReduceOp::PRODUCT:
      return is_bool ? at::logical_and(a, b) : a * b;
    case ReduceOp::MIN:
      return is_bool ? at::logical_and(a, b) : at::minimum(a, b);
    case ReduceOp::MAX:
      return is_bool ? at::logical_or(a, b) : at::maximum(a, b);
    case ReduceOp::BAND:
      return at::bitwise_and(a, b);
    case ReduceOp::BOR:
      return at::bitwise_or(a, b);
    case ReduceOp::BXOR:
      return at::bitwise_xor(a, b);
    default:
      return is_bool ? at::logical_or(a, b) : a + b;
  }
}

/// In rank order, in the tensors' dtype.
at::Tensor serially(const Tensors& values, ReduceOp::RedOpType op) {
  at::Tensor result = values[0].clone();
  for (std::size_t i = 1; i < values.size(); ++i) result = combined(result, values[i], op);
  if (op == ReduceOp::AVG) result = result / static_cast<double>(values.size());
  return result;
}

bool has_reduction(at::ScalarType dtype, ReduceOp::RedOpType op) {
  const bool is_of_bits = op == ReduceOp::BAND || op == ReduceOp::BOR || op == ReduceOp::BXOR;
  if (at::isFloatingType(dtype)) return !is_of_bits;
  return op != ReduceOp::AVG;
}

/// Bit for bit, unless the library chooses the order.
bool is_same(const at::Tensor& found, const at::Tensor& wanted) {
  static const bool is_ordered = std::getenv("LOCKSTEP_MPI_ORDER") == nullptr;
  if (is_ordered || !at::isFloatingType(wanted.scalar_type())) return at::equal(found, wanted);
  const double tolerance = wanted.element_size() == 2 ? 0.05 : 1e-5;
  return at::allclose(found, wanted, tolerance, tolerance);
}

template <class Options>
Options with_op(ReduceOp::RedOpType op) {
  Options options;
  options.reduceOp = op;
  return options;
}

void check_reductions(Checks& checks, const Backend& backend, at::ScalarType dtype,
                      ReduceOp::RedOpType op, std::int64_t elements) {
  const int ranks = checks.placement().world_size;
  const int me = checks.placement().rank;
  const std::string what = std::string(c10::toString(dtype)) + ", reduction " +
                           std::to_string(static_cast<int>(op)) + ", elements " +
                           std::to_string(elements);
  const at::Tensor wanted = serially(values_of_all(ranks, dtype, elements), op);

  Tensors own{value_of(me, dtype, elements)};
  backend->allreduce(own, with_op<c10d::AllreduceOptions>(op))->wait();
  checks.expect(is_same(own[0], wanted), "allreduce " + what);

  Tensors pair{value_of(me, dtype, elements), value_of(me, dtype, elements + 2, 1)};
  backend->allreduce_coalesced(pair, with_op<c10d::AllreduceCoalescedOptions>(op))->wait();
  const at::Tensor second = serially(values_of_all(ranks, dtype, elements + 2, 1), op);
  checks.expect(is_same(pair[0], wanted) && is_same(pair[1], second), "coalesced " + what);

  Tensors rooted{value_of(me, dtype, elements)};
  auto options = with_op<c10d::ReduceOptions>(op);
  options.rootRank = ranks - 1;
  backend->reduce(rooted, options)->wait();
  checks.expect(me != ranks - 1 || is_same(rooted[0], wanted), "reduce " + what);

  const Tensors whole = values_of_all(ranks, dtype, elements * ranks);
  const at::Tensor block = serially(whole, op).narrow(0, me * elements, elements);
  at::Tensor input = whole[static_cast<std::size_t>(me)];
  at::Tensor output = at::zeros({elements}, dtype);
  backend->_reduce_scatter_base(output, input, with_op<c10d::ReduceScatterOptions>(op))->wait();
  checks.expect(is_same(output, block), "_reduce_scatter_base " + what);

  Tensors outputs{at::zeros({elements}, dtype)};
  std::vector<Tensors> inputs{{}};
  for (int rank = 0; rank < ranks; ++rank) {
    inputs[0].push_back(input.narrow(0, rank * elements, elements).clone());
  }
  backend->reduce_scatter(outputs, inputs, with_op<c10d::ReduceScatterOptions>(op))->wait();
  checks.expect(is_same(outputs[0], block), "reduce_scatter " + what);
}

void check_moves(Checks& checks, const Backend& backend, at::ScalarType dtype,
                 std::int64_t elements) {
  const int ranks = checks.placement().world_size;
  const int me = checks.placement().rank;
  const int root = ranks - 1;
  const std::string what =
      std::string(c10::toString(dtype)) + ", elements " + std::to_string(elements);
  const Tensors all = values_of_all(ranks, dtype, elements);

  Tensors tensor{value_of(me, dtype, elements)};
  c10d::BroadcastOptions broadcast;
  broadcast.rootRank = root;
  backend->broadcast(tensor, broadcast)->wait();
  checks.expect(at::equal(tensor[0], all.back()), "broadcast " + what);

  Tensors own{value_of(me, dtype, elements)};
  std::vector<Tensors> gathered{{}};
  for (int rank = 0; rank < ranks; ++rank) gathered[0].push_back(at::zeros({elements}, dtype));
  backend->allgather(gathered, own, {})->wait();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    checks.expect(at::equal(gathered[0][rank], all[rank]), "allgather " + what);
  }

  at::Tensor flat = at::zeros({ranks * elements}, dtype);
  backend->_allgather_base(flat, own[0], {})->wait();
  checks.expect(at::equal(flat, at::cat(all)), "_allgather_base " + what);

  std::vector<Tensors> at_root;
  if (me == root) {
    at_root.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) at_root[0].push_back(at::zeros({elements}, dtype));
  }
  c10d::GatherOptions gather;
  gather.rootRank = root;
  backend->gather(at_root, own, gather)->wait();
  for (std::size_t rank = 0; me == root && rank < all.size(); ++rank) {
    checks.expect(at::equal(at_root[0][rank], all[rank]), "gather " + what);
  }

  Tensors scattered{at::zeros({elements}, dtype)};
  std::vector<Tensors> parts;
  if (me == root) parts.push_back(values_of_all(ranks, dtype, elements));
  c10d::ScatterOptions scatter;
  scatter.rootRank = root;
  backend->scatter(scattered, parts, scatter)->wait();
  checks.expect(at::equal(scattered[0], all[static_cast<std::size_t>(me)]), "scatter " + what);
}

/// Rank r sends r + t + 1 rows to rank t.
void check_alltoall(Checks& checks, const Backend& backend, at::ScalarType dtype) {
  const int ranks = checks.placement().world_size;
  const int me = checks.placement().rank;
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> received;
  std::int64_t rows = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    sent.push_back(me + rank + 1);
    received.push_back(me + rank + 1);
    rows += me + rank + 1;
  }
  Tensors wanted;
  for (int from = 0; from < ranks; ++from) {
    std::int64_t begin = 0;
    for (int to = 0; to < me; ++to) begin += from + to + 1;
    const std::int64_t of_sender = ranks * (from + 1) + ranks * (ranks - 1) / 2;
    wanted.push_back(
        value_of(from, dtype, 2 * of_sender).view({-1, 2}).narrow(0, begin, from + me + 1));
  }
  at::Tensor input = value_of(me, dtype, 2 * rows).view({-1, 2});
  at::Tensor output = at::zeros({rows, 2}, dtype);
  backend->alltoall_base(output, input, received, sent, {})->wait();
  checks.expect(at::equal(output, at::cat(wanted)),
                std::string("alltoall_base ") + c10::toString(dtype));

  at::Tensor even = value_of(me, dtype, ranks);
  at::Tensor swapped = at::zeros({ranks}, dtype);
  std::vector<std::int64_t> equal_parts;
  backend->alltoall_base(swapped, even, equal_parts, equal_parts, {})->wait();
  for (int rank = 0; rank < ranks; ++rank) {
    checks.expect(at::equal(swapped[rank], value_of(rank, dtype, ranks)[me]),
                  std::string("even alltoall_base ") + c10::toString(dtype));
  }
}

/// Cases in which MPI's own operations are wrong.
void check_short_numbers(Checks& checks, const Backend& backend) {
  const int me = checks.placement().rank;
  const int ranks = checks.placement().world_size;
  const auto reduced = [&](std::int64_t value, at::ScalarType dtype, ReduceOp::RedOpType op) {
    Tensors tensor{at::full({3}, value, dtype)};
    backend->allreduce(tensor, with_op<c10d::AllreduceOptions>(op))->wait();
    return tensor[0][0].item<std::int64_t>();
  };
  const std::int64_t sum = 100 + 200 * (ranks - 1);
  checks.expect(reduced(me == 0 ? 100 : 200, at::kByte, ReduceOp::SUM) == sum % 256,
                "the sum of uint8 wraps");
  checks.expect(reduced(me == 0 ? 3 : 200, at::kByte, ReduceOp::MAX) == 200, "200 > 3 in uint8");
  checks.expect(reduced(me == 0 ? 3 : 200, at::kByte, ReduceOp::MIN) == 3, "3 < 200 in uint8");
  checks.expect(reduced(100, at::kChar, ReduceOp::SUM) == static_cast<std::int8_t>(100 * ranks),
                "the sum of int8 wraps");
  checks.expect(reduced(me == 0 ? 1 : 0, at::kBool, ReduceOp::SUM) == 1, "true + false");
}

/// Values whose order of summation matters: adding to 1e8 loses small numbers.
void check_order(Checks& checks, const Backend& backend) {
  if (std::getenv("LOCKSTEP_MPI_ORDER")) return;
  const int me = checks.placement().rank;
  Tensors tensor{at::full({1}, me == 0 ? 1e8 : me == 1 ? -1e8 : 1.0, at::kFloat)};
  backend->allreduce(tensor, {})->wait();
  checks.expect(tensor[0].item<float>() == 1, "(1e8 + -1e8) + 1");
  const Tensors all = values_of_all(checks.placement().world_size, at::kFloat, 100'000, 7);
  Tensors own{all[static_cast<std::size_t>(me)].clone()};
  backend->allreduce(own, {})->wait();
  checks.expect(at::equal(own[0], serially(all, ReduceOp::SUM)), "100000 elements in rank order");
}

/// A scenario measures only the training's memory in a step.
void check_memory(Checks& checks, const Backend& backend) {
  Tensors own{at::zeros({1000}, at::kFloat)}, pair{own[0].clone(), own[0].clone()};
  const ActivationMemory memory;
  backend->allreduce(own, {})->wait();
  backend->allreduce_coalesced(pair, {})->wait();
  checks.expect(memory.peak() == 0, "room of its own is nobody's tensor");
}

void check_refusals(Checks& checks, const Backend& backend) {
  Tensors strided{at::zeros({4, 4}, at::kFloat).t()};
  checks.expect_error("strided", [&] { backend->allreduce(strided, {})->wait(); },
                      {"must be dense and contiguous"});
  Tensors whole{at::zeros({4}, at::kInt)};
  checks.expect_error(
      "average of int",
      [&] { backend->allreduce(whole, with_op<c10d::AllreduceOptions>(ReduceOp::AVG))->wait(); },
      {"average of whole numbers"});
  Tensors floating{at::zeros({4}, at::kFloat)};
  checks.expect_error(
      "bits of float",
      [&] { backend->allreduce(floating, with_op<c10d::AllreduceOptions>(ReduceOp::BOR))->wait(); },
      {"is not supported"});
}

/// Works can be waited for in any order, and have futures.
void check_works(Checks& checks, const Backend& backend) {
  std::vector<Tensors> tensors;
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  for (int i = 0; i < 20; ++i) {
    tensors.push_back({at::full({1000}, i, at::kInt)});
    works.push_back(backend->allreduce(tensors.back(), {}));
  }
  for (int i = 19; i >= 0; --i) {
    const auto future = works[static_cast<std::size_t>(i)]->getFuture();
    future->wait();
    checks.expect(!future->hasError() && future->value().toTensorVector()[0][0].item<int>() ==
                                             i * checks.placement().world_size,
                  "the future of an allreduce");
    checks.expect(works[static_cast<std::size_t>(i)]->wait(), "waiting once more");
  }
}

}  // namespace

void check_collectives(Checks& checks) {
  const Backend backend = checks.backend();
  for (const at::ScalarType dtype : kDtypes) {
    for (const std::int64_t elements : {0, 1, 37}) {
      check_moves(checks, backend, dtype, elements);
      for (const ReduceOp::RedOpType op : kReductions) {
        if (has_reduction(dtype, op)) check_reductions(checks, backend, dtype, op, elements);
      }
    }
    check_alltoall(checks, backend, dtype);
  }
  check_short_numbers(checks, backend);
  check_order(checks, backend);
  check_memory(checks, backend);
  check_refusals(checks, backend);
  check_works(checks, backend);
  backend->barrier({})->wait();
  backend->shutdown();
}

/// In a ring, large enough that a send cannot complete alone.
void check_messages(Checks& checks) {
  const Backend backend = checks.backend();
  const int ranks = checks.placement().world_size;
  const int me = checks.placement().rank;
  const int left = (me + ranks - 1) % ranks;
  Tensors sent{value_of(me, at::kFloat, 500'000)};
  Tensors received{at::zeros({500'000}, at::kFloat)};
  const auto sending = backend->send(sent, (me + 1) % ranks, 5);
  backend->recv(received, left, 5)->wait();
  sending->wait();
  checks.expect(at::equal(received[0], value_of(left, at::kFloat, 500'000)), "a ring of messages");

  Tensors rank{at::full({1}, me, at::kInt)};
  if (me != 0) backend->send(rank, 0, 6)->wait();
  for (int i = 1; me == 0 && i < ranks; ++i) {
    const auto work = backend->recvAnysource(rank, 6);
    work->wait();
    checks.expect(rank[0].item<int>() == work->sourceRank(), "a message from anybody");
  }
  backend->shutdown();
}

}  // namespace lockstep::mpi_test
