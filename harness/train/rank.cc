#include "harness/train/rank.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <utility>

#include "harness/record/rank_end.h"

namespace lockstep {

namespace fs = std::filesystem;

Rank::Rank(Cell cell, Seat seat, fs::path folder, GroupOptions group)
    : cell_(std::move(cell)),
      seat_(std::move(seat)),
      folder_(std::move(folder)),
      group_options_(std::move(group)),
      observer_(folder_, seat_.rank) {}

Rank::~Rank() = default;

bool Rank::is(std::string_view variant, int line) {
  if (cell_.variant != variant) return false;
  variant_line_ = line;
  return true;
}

ProcessGroup& Rank::group() {
  if (!group_) {
    log_ = std::make_unique<CollectiveLog>(
        folder_ / fmt::format("collectives-{}.bin", seat_.rank), seat_.rank);
    group_ = std::make_unique<ProcessGroup>(seat_, group_options_, *log_);
    group_->begin_step(step());
  }
  return *group_;
}

void Rank::train(const std::function<void(std::int64_t step)>& body) {
  for (std::int64_t step = 1; step <= cell_.steps; ++step) {
    observer_.begin_step(step);
    if (group_) group_->begin_step(step);
    // A rank that is killed can no longer say where it was.
    write_rank_statement(rank_statement_file(folder_, rank()), {step, variant_line_, false, ""});
    body(step);
  }
}

void Rank::observe_gradients(Point point, const Module& module) {
  for (const auto& [name, tensor] : module.named_parameters()) {
    observer_.observe(point, Kind::gradient, name, tensor.grad());
  }
}

void Rank::observe_parameters(Point point, const Module& module) {
  for (const auto& [name, tensor] : module.named_parameters()) {
    observer_.observe(point, Kind::parameter, name, tensor);
  }
}

void Rank::observe_buffers(Point point, const Module& module) {
  for (const auto& [name, tensor] : module.named_buffers()) {
    observer_.observe(point, Kind::buffer, name, tensor);
  }
}

void Rank::mean_of_rank_gradients(Module& module,
                                  const std::function<at::Tensor(int rank)>& loss_of) {
  const std::vector<at::Tensor> parameters = module.parameters();
  std::vector<at::Tensor> sums(parameters.size());
  for (int rank = 0; rank < world_size(); ++rank) {
    module.zero_grad();
    loss_of(rank).backward();
    observer_.begin_micro_batch(rank);
    observe_gradients(Point::backward, module);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& gradient = parameters[i].grad();
      if (!gradient.defined()) continue;  // as zeros, unless it is undefined on every rank
      sums[i] = sums[i].defined() ? sums[i] + gradient : gradient.clone();
    }
  }
  observer_.begin_micro_batch(0);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].mutable_grad() = sums[i].defined() ? sums[i] / world_size() : at::Tensor();
  }
}

namespace {

RankStatement ending_of(const std::function<void(Rank&)>& body, Rank& rank) {
  RankStatement statement;
  try {
    body(rank);
    rank.finish();
  } catch (const c10::Error& error) {
    statement.error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    statement.error = error.what();
  }
  statement.ended = true;
  statement.step = rank.step();
  statement.line = rank.variant_line();
  return statement;
}

}  // namespace

int run_rank(const std::function<void(Rank&)>& body, const Cell& cell, const Seat& seat,
             const fs::path& folder, const GroupOptions& group) {
  at::set_num_threads(1);
  at::set_num_interop_threads(1);
  // Never destroyed: the process is about to end, and leaving a group can wait for a dead peer.
  Rank& rank = *new Rank(cell, seat, folder, group);
  const RankStatement statement = ending_of(body, rank);
  if (!statement.error.empty()) {
    fmt::print(stderr, "rank {} raised in step {}: {}\n", seat.rank, statement.step,
               statement.error);
    try {
      rank.finish();  // what was observed before the error is evidence
    } catch (const std::exception& error) {
      fmt::print(stderr, "and its last values were lost: {}\n", error.what());
    }
  }
  write_rank_statement(rank_statement_file(folder, seat.rank), statement);
  return statement.error.empty() ? 0 : 1;
}

}  // namespace lockstep
