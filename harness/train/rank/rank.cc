#include "harness/train/rank/rank.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <utility>

#include "harness/record/dtype.h"
#include "harness/record/process_identity.h"
#include "harness/record/rank_status.h"
#include "harness/train/rank/devices.h"
#include "harness/train/sharded/sharded_model.h"
#include "reports/base/error.h"
#include "reports/record/exit_cause.h"

namespace lockstep {

namespace fs = std::filesystem;

Rank::Rank(Cell cell, RankPlacement placement, fs::path folder, GroupOptions group)
    : cell_(std::move(cell)),
      placement_(std::move(placement)),
      folder_(std::move(folder)),
      group_options_(std::move(group)),
      observer_(folder_, placement_.rank, {process_identity(cell_, placement_.rank)}) {}

Rank::~Rank() = default;

namespace {

/// The distance from 1 to the next number of the tensor's type; 0 for types without rounding.
double epsilon(const at::Tensor& tensor) {
  const auto dtype = parse<DType>(c10::getDtypeNames(tensor.scalar_type()).first);
  return dtype ? 2 * unit_roundoff(component_type(*dtype)) : 0;
}

/// A part of `rank` alone, or a tensor that every rank keeps whole.
NamedTensor part_of_rank(int rank, const std::string& name, const at::Tensor& tensor,
                         const Shard& place) {
  if (place.global_shape.empty()) return {name, tensor};
  return {name, tensor, place, group_of_one(rank)};
}

std::vector<NamedTensor> parts_of_rank(int rank, ShardedModel& sharded) {
  std::vector<NamedTensor> parts;
  for (const auto& [name, tensor, place] : sharded.shards()) {
    parts.push_back(part_of_rank(rank, name, tensor, place));
  }
  return parts;
}

std::vector<NamedTensor> copies_of(std::vector<NamedTensor> tensors) {
  for (NamedTensor& one : tensors) one.tensor = one.tensor.detach().clone();
  return tensors;
}

/// `after` less `before`, tensor by tensor.
std::vector<NamedTensor> moved_from(const std::vector<NamedTensor>& before,
                                    std::vector<NamedTensor> after) {
  for (std::size_t i = 0; i < after.size(); ++i) {
    after[i].tensor = after[i].tensor.detach() - before.at(i).tensor;
  }
  return after;
}

}  // namespace

bool Rank::is_variant(std::string_view variant) const {
  if (cell_.variant != variant) return false;
  note_asked();
  return true;
}

/// Written at once: a rank killed later still counts as triggered.
void Rank::note_asked() const {
  const bool is_new = !std::exchange(was_asked_for_, true);
  if (is_new && variant_line_ != 0 && step() > 0) state_progress();
}

void Rank::at_branch(int line) {
  if (is_reference()) was_asked_for_ = true;
  const bool is_new = std::exchange(variant_line_, line) != line;
  if (is_new && step() > 0) state_progress();
}

/// A condition at its default does not distinguish the variant from others.
void Rank::note_question(std::string_view axis) const {
  for (const AxisValue& setting : cell_.sets) {
    if (setting.axis == axis && !setting.is_default) note_asked();
  }
}

bool Rank::has(std::string_view axis, std::string_view value) const {
  note_question(axis);
  return is_set(cell_, axis, value);
}

const std::string& Rank::text(std::string_view axis) const {
  note_question(axis);
  return axis_value(cell_, axis);
}

std::int64_t Rank::number(std::string_view axis) const {
  note_question(axis);
  return number_on(cell_, axis);
}

at::Device Rank::device() {
  if (!device_) device_ = open_own_device(*this);
  return *device_;
}

ProcessGroup& Rank::group() {
  if (!group_) meet();
  return *group_;
}

/// A rank that is ended in the rendezvous has already reported its arrival.
void Rank::meet() {
  log_ = std::make_unique<CollectiveLog>(collective_log_file(folder_, placement_.rank),
                                         placement_.rank, process_identity(cell_, placement_.rank));
  rendezvous_ = RendezvousState::begun;
  state_progress();
  try {
    group_ = std::make_unique<ProcessGroup>(placement_, group_options_, *log_);
  } catch (...) {
    rendezvous_ = RendezvousState::failed;
    throw;
  }
  rendezvous_ = RendezvousState::met;
  state_progress();
  group_->begin_step(step());
}

/// Written ahead: a killed rank can no longer report its position. A failed write is not an error
/// of the body; `finish` throws it.
void Rank::state_progress() const {
  try {
    write_rank_status(rank_status_file(folder_, placement_.rank),
                      {.step = step(),
                       .line = variant_line(),
                       .step_began_ns = step_began_ns_,
                       .rendezvous = rendezvous_,
                       .process = process_identity(cell_, placement_.rank)});
  } catch (const Error&) {
    if (!status_failure_) status_failure_ = std::current_exception();
  }
}

void Rank::finish() {
  if (group_) group_->stop_recording();
  log_.reset();
  observer_.finish();
  observer_.rethrow_failure();
  if (status_failure_) std::rethrow_exception(status_failure_);
}

void Rank::leave_group() {
  if (group_) group_->shut_down();
}

at::Tensor Rank::input(const at::Tensor& tensor) {
  ++inputs_;
  const bool is_perturbed = perturbation() != 0;
  if (is_perturbed && epsilon(tensor) > 0) return perturbed(tensor, inputs_).to(device());
  if (is_perturbed) perturb_weights();
  return tensor.to(device());
}

/// Every element times 1 + eps or 1 - eps, the sign drawn from perturbation, step and `number`.
at::Tensor Rank::perturbed(const at::Tensor& tensor, std::uint64_t number) const {
  // The generator uses only the low 32 bits of a seed.
  const auto seed = static_cast<std::uint64_t>(perturbation()) << 29 ^
                    static_cast<std::uint64_t>(step()) << 12 ^ number;
  const at::Tensor bits =
      at::randint(2, tensor.sizes(), cpu_generator(seed), tensor.options().device(at::kCPU))
          .to(tensor.device());
  return tensor * (1 + (2 * bits - 1) * epsilon(tensor));
}

void Rank::perturb_weights() {
  constexpr std::uint64_t kFirstNumber = 1 << 11;  // after those of inputs
  for (WeightBefore& weight : weights_) {
    if (weight.value.defined()) continue;  // perturbed by an earlier input of this step
    weight.value = weight.parameter.detach().clone();
    const auto number = kFirstNumber + static_cast<std::uint64_t>(&weight - weights_.data());
    // Keeps the version: an earlier loss may have saved the tensor.
    weight.parameter.variable_data().copy_(perturbed(weight.value, number));
  }
}

void Rank::restore_weights() {
  for (const WeightBefore& weight : weights_) {
    if (weight.value.defined()) weight.parameter.variable_data().copy_(weight.value);
  }
  weights_.clear();
}

void Rank::train(const std::function<void(std::int64_t step)>& body) {
  using Clock = std::chrono::steady_clock;
  for (std::int64_t step = 1; step <= cell_.steps; ++step) {
    observer_.begin_step(step);
    step_began_ns_ = Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    if (group_) group_->begin_step(step);
    state_progress();
    inputs_ = 0;
    const auto observing = observer_.time_spent();
    const auto start = Clock::now();
    body(step);
    const std::chrono::duration<double> spent =
        Clock::now() - start - (observer_.time_spent() - observing);
    step_seconds_.push_back(spent.count());
  }
  if (group_) group_->begin_step(0);
}

std::optional<double> Rank::step_seconds() const {
  if (step_seconds_.empty()) return std::nullopt;
  std::vector<double> sorted = step_seconds_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

namespace {

/// The gradients of `tensors`, under their names.
std::vector<NamedTensor> gradients_of(std::vector<NamedTensor> tensors) {
  for (NamedTensor& entry : tensors) entry.tensor = entry.tensor.grad();
  return tensors;
}

std::vector<NamedTensor> in_group(const std::string& replica_group,
                                  std::vector<NamedTensor> tensors) {
  for (NamedTensor& entry : tensors) entry.replica_group = replica_group;
  return tensors;
}

}  // namespace

void Rank::observe_gradients(Phase phase, const Module& module) {
  name_parameters(module);
  if (phase == Phase::pre_step) note_initial_parameters(module);
  observer_.observe(phase, Kind::gradient, gradients_of(module.named_parameters()));
}

void Rank::observe_parameters(Phase phase, const Module& module) {
  name_parameters(module);
  observer_.observe(phase, Kind::parameter, module.named_parameters());
}

void Rank::observe_buffers(Phase phase, const Module& module) {
  observer_.observe(phase, Kind::buffer, module.named_buffers());
}

// The replica group: even a shard as large as the whole is on no other rank.
void Rank::observe_gradients(Phase phase, ShardedModel& sharded) {
  if (phase == Phase::pre_step && must_note_parameters()) {
    observe_parameters(Phase::post_backward, sharded);
  }
  std::vector<NamedTensor> gradients;
  for (const auto& [name, tensor, place] : sharded.shards()) {
    if (sharded.keeps_gradients_whole()) {
      gradients.push_back({name, tensor.grad()});
      continue;
    }
    const bool is_empty = tensor.numel() == 0 && tensor.requires_grad();
    if (is_empty && !tensor.grad().defined()) continue;  // an empty shard needs no gradient
    gradients.push_back(part_of_rank(rank(), name, tensor.grad(), place));
  }
  observer_.observe(phase, Kind::gradient, gradients);
}

void Rank::observe_parameters(Phase phase, ShardedModel& sharded) {
  if (sharded.keeps_parameters_whole()) return observe_parameters(phase, sharded.module());
  observer_.observe(phase, Kind::parameter, parts_of_rank(rank(), sharded));
}

void Rank::observe_update(const Module& module, const std::function<void()>& step) {
  const std::vector<NamedTensor> before = copies_of(module.named_parameters());
  step();
  observer_.observe(Phase::post_step, Kind::update, moved_from(before, module.named_parameters()));
}

void Rank::observe_update(ShardedModel& sharded, const std::function<void()>& step) {
  if (sharded.keeps_parameters_whole()) return observe_update(sharded.module(), step);
  const std::vector<NamedTensor> before = copies_of(parts_of_rank(rank(), sharded));
  step();
  observer_.observe(Phase::post_step, Kind::update,
                    moved_from(before, parts_of_rank(rank(), sharded)));
}

/// A perturbed reference serves only to measure how far values move.
bool Rank::must_note_parameters() {
  const bool must = step() == 1 && perturbation() == 0;
  return must && !std::exchange(has_noted_parameters_, true);
}

/// The first step's parameters moved from these. Those of the reference have no copies to agree
/// with.
void Rank::note_initial_parameters(const Module& module) {
  if (!must_note_parameters()) return;
  std::vector<NamedTensor> parameters = module.named_parameters();
  if (is_reference()) parameters = in_group(group_of_one(0), std::move(parameters));
  observer_.observe(Phase::post_backward, Kind::parameter, parameters);
}

/// The diagnosis compares wrong gradients with these.
void Rank::note_own_gradients(int rank, const Module& module) {
  if (perturbation() != 0) return;
  observer_.begin_micro_batch(rank);
  observer_.observe(Phase::post_backward, Kind::gradient,
                    in_group(group_of_one(rank), gradients_of(module.named_parameters())));
}

void Rank::mean_of_rank_gradients(Module& module,
                                  const std::function<at::Tensor(int rank)>& loss_of) {
  const std::vector<at::Tensor> parameters = module.parameters();
  std::vector<at::Tensor> sums(parameters.size());
  note_initial_parameters(module);
  for (const at::Tensor& parameter : parameters) {
    if (epsilon(parameter) > 0) weights_.push_back({parameter, at::Tensor()});
  }
  for (int rank = 0; rank < world_size(); ++rank) {
    module.zero_grad();
    loss_of(rank).backward();
    note_own_gradients(rank, module);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& gradient = parameters[i].grad();
      if (!gradient.defined()) continue;  // counts as zeros, unless undefined on every rank
      sums[i] = sums[i].defined() ? sums[i] + gradient : gradient.clone();
    }
  }
  restore_weights();
  observer_.begin_micro_batch(0);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].mutable_grad() = sums[i].defined() ? sums[i] / world_size() : at::Tensor();
  }
}

namespace {

/// Runs `body` and returns how it ended. Errors of the harness and of the framework are kept apart:
/// a full disk is no bug of the scenario.
RankStatus ending_of(const std::function<void()>& body) {
  RankStatus status;
  status.ended = true;
  status.raised = true;
  try {
    body();
    status.raised = false;
  } catch (const Error& error) {
    status.is_own = true;
    status.error = error.what();
  } catch (const c10::Error& error) {
    status.error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    status.error = error.what();
  } catch (...) {
    status.error = "an exception that is not a std::exception";
  }
  if (status.raised && status.error.empty()) status.error = "an exception without a text";
  if (status.raised && is_loss_of_peer(status.error)) status.cause = ExitCause::lost_peer;
  return status;
}

}  // namespace

int run_rank(const std::function<void(Rank&)>& body, const Cell& cell,
             const RankPlacement& placement, const fs::path& folder, const GroupOptions& group) {
  std::signal(SIGXFSZ, SIG_IGN);  // a full quota then fails the write, with a message
  at::set_num_threads(1);
  at::set_num_interop_threads(1);
  // Never destroyed: the process is about to end, and leaving a group can wait for a dead peer.
  Rank& rank = *new Rank(cell, placement, folder, group);
  RankStatus status = ending_of([&] { body(rank); });
  // Observations made before an error are evidence as well.
  const RankStatus written = ending_of([&] { rank.finish(); });
  if (written.raised && !status.is_own) status = written;
  status.process = process_identity(cell, placement.rank);
  status.step = rank.step();
  status.line = rank.variant_line();
  status.step_began_ns = rank.step_began_ns();
  status.rendezvous = rank.rendezvous();
  status.rows = rank.observer().rows();
  if (!status.raised) status.step_s = rank.step_seconds();
  if (status.raised) {
    const std::string words =
        fmt::format("rank {} raised in step {}: {}\n", placement.rank, status.step, status.error);
    std::fputs(words.c_str(), stderr);
  }
  write_rank_status(rank_status_file(folder, placement.rank), status);
  // After the status is written: a launcher may kill ranks whose peers have left.
  if (!status.raised) ending_of([&] { rank.leave_group(); });
  return status.raised ? 1 : 0;
}

}  // namespace lockstep
