#include "harness/diff/step_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "harness/diff/compare_updates.h"
#include "harness/diff/preconditions.h"
#include "harness/record/dtype.h"

namespace lockstep {

namespace {

using Tensors = SideSteps::Tensors;

/// Adds the parameters of a step that were observed before the optimizer's step, or after it, as
/// those before a step.
void add_parameters(const WholeTensors& tensors, bool is_after, Tensors& before) {
  for (const auto& [key, tensor] : tensors.all()) {
    if (key.kind != Kind::parameter || (key.phase == Phase::post_step) != is_after) continue;
    before.push_back({before_step_key(key.name), tensor});
  }
}

WholeTensor undefined() {
  WholeTensor none;
  none.is_undefined = true;
  return none;
}

bool has_parameter(const SideStep& side, const std::string& name) {
  return side.tensors.find({Phase::post_step, Kind::parameter, name}) != nullptr;
}

/// Of a gradient or a loss. A parameter that is on both sides may be frozen on one of them.
std::optional<TensorPair> observed_pair(const WholeTensorKey& key, const WholeTensor& tensor,
                                        const SideStep& b) {
  const bool is_gradient = key.kind == Kind::gradient && key.phase == Phase::pre_step;
  if (!is_gradient && key.kind != Kind::loss) return std::nullopt;
  const WholeTensor* const other = b.tensors.find(key);
  if (!other && !(is_gradient && has_parameter(b, key.name))) return std::nullopt;
  TensorPair pair{is_gradient ? Compared::gradient : Compared::loss, key.name, tensor,
                  other ? *other : undefined()};
  if (!is_gradient || pair.b.others.empty() || !tensor.problem.empty()) return pair;
  pair.of_ranks = pair.b.others;
  pair.of_ranks.push_back(pair.b);
  pair.of_ranks.back().problem.clear();
  return pair;
}

/// Gradients that only B has, of parameters on both sides.
void add_gradients_of_b(const SideStep& a, const SideStep& b, std::vector<TensorPair>& pairs) {
  for (const auto& [key, tensor] : b.tensors.all()) {
    const bool is_gradient = key.kind == Kind::gradient && key.phase == Phase::pre_step;
    if (!is_gradient || a.tensors.find(key) || !has_parameter(a, key.name)) continue;
    pairs.push_back({Compared::gradient, key.name, undefined(), tensor});
  }
}

std::optional<TensorPair> update_pair(const WholeTensorKey& key, const WholeTensor& tensor,
                                      const SideStep& a, const SideStep& b) {
  if (key.kind != Kind::parameter || key.phase != Phase::post_step) return std::nullopt;
  const WholeTensor* const other = b.tensors.find(key);
  const WholeTensor* const before = before_step(a.before, key.name);
  const WholeTensor* const other_before = before_step(b.before, key.name);
  if (!other || !before || !other_before) return std::nullopt;
  TensorPair pair{Compared::update, key.name, update_of(*before, tensor),
                  update_of(*other_before, *other)};
  if (other->others.empty() || !pair.a.problem.empty()) return pair;
  WholeTensor first = *other;
  first.problem.clear();
  pair.of_ranks.push_back(update_of(*other_before, first));
  for (const WholeTensor& value : other->others) {
    pair.of_ranks.push_back(update_of(*other_before, value));
  }
  return pair;
}

/// "exp_avg" of the optimizer state "layer.weight: exp_avg".
std::string state_of(const WholeTensorKey& key) {
  const std::size_t begin = parameter_of(key).size() + 2;
  return begin < key.name.size() ? key.name.substr(begin) : "";
}

/// Whether a state follows smoothly from the gradients: sums and averages of them, of their squares
/// or sizes, and numbers of steps. Others turn over with the sign of an element, such as a step
/// size or what was divided by its own root.
bool is_smooth(const WholeTensorKey& key, const WholeTensors& tensors) {
  static const std::set<std::string, std::less<>> kSmooth{
      "exp_avg",    "exp_avg_sq", "max_exp_avg_sq", "exp_inf",        "sum",
      "square_avg", "grad_avg",   "step",           "momentum_buffer"};
  const std::string state = state_of(key);
  if (!kSmooth.contains(state)) return false;
  const bool is_of_rmsprop =  // whose momentum is that of gradients over their root
      state == "momentum_buffer" &&
      tensors.find({key.phase, key.kind, parameter_of(key) + ": square_avg"});
  return !is_of_rmsprop;
}

/// Codes of quantized states.
bool is_code(const WholeTensor& state) {
  return roundoff_of(state.dtype) == 0 && state.elements > 1;
}

/// Of states that both sides have whole, and that are no codes.
std::optional<TensorPair> state_pair(const WholeTensorKey& key, const WholeTensor& tensor,
                                     const SideStep& a, const SideStep& b) {
  if (key.kind != Kind::optimizer_state || !is_smooth(key, a.tensors)) return std::nullopt;
  const WholeTensor* const other = b.tensors.find(key);
  if (!other || !tensor.problem.empty() || !other->problem.empty()) return std::nullopt;
  if (is_code(tensor) || is_code(*other)) return std::nullopt;
  return TensorPair{Compared::optimizer_state, key.name, tensor, *other};
}

/// What optimizers of a side keep of any parameter: "exp_avg".
std::set<std::string> states_kept(const WholeTensors& tensors) {
  std::set<std::string> states;
  for (const auto& [key, tensor] : tensors.all()) {
    if (key.kind == Kind::optimizer_state) states.insert(state_of(key));
  }
  return states;
}

/// Whether a state is compared, but the other side lacks it of a parameter which it steps.
bool is_lacking(const WholeTensorKey& key, const WholeTensor& tensor, const SideStep& side,
                const SideStep& other) {
  return key.kind == Kind::optimizer_state && !other.tensors.find(key) &&
         is_smooth(key, side.tensors) && tensor.problem.empty() && !is_code(tensor) &&
         has_parameter(other, parameter_of(key));
}

/// One of the two sides of a step beside the other one.
struct Beside {
  const SideStep& side;
  const SideStep& other;
  bool is_a;  ///< `side`

  const char* name_of_other() const { return is_a ? "B" : "A"; }

  /// `lacking`: what stands for the tensor on the other side.
  TensorPair pair(Compared quantity, const std::string& name, const WholeTensor& tensor,
                  const WholeTensor& lacking) const {
    return {quantity, name, is_a ? tensor : lacking, is_a ? lacking : tensor};
  }
};

WholeTensor unknown(std::string why) {
  WholeTensor none;
  none.problem = std::move(why);
  return none;
}

/// Adds the states that the other side lacks. It is a difference if its optimizers keep such states
/// of other parameters. Else they may be other optimizers, or other implementations of one, and
/// nothing is known of it. Some do not count steps by parameter.
void add_lacking_states(const Beside& both, std::vector<TensorPair>& pairs) {
  const std::set<std::string> kept = states_kept(both.other.tensors);
  if (kept.empty()) return;
  for (const auto& [key, tensor] : both.side.tensors.all()) {
    if (!is_lacking(key, tensor, both.side, both.other)) continue;
    const std::string state = state_of(key);
    if (kept.contains(state)) {
      pairs.push_back(both.pair(Compared::optimizer_state, key.name, tensor, undefined()));
    } else if (state != "step") {
      const std::string why = fmt::format("optimizers of {} keep none", both.name_of_other());
      pairs.push_back(both.pair(Compared::optimizer_state, key.name, tensor, unknown(why)));
    }
  }
}

/// Of torch's normalisation layers: each rank may have those of its own samples.
bool is_of_samples(const std::string& buffer) {
  return buffer.ends_with("running_mean") || buffer.ends_with("running_var") ||
         buffer.ends_with("num_batches_tracked");
}

bool has_buffers(const WholeTensors& tensors) {
  return std::ranges::any_of(tensors.all(),
                             [](const auto& one) { return one.first.kind == Kind::buffer; });
}

/// Adds the buffers that the other side lacks. A state of the training is a difference, unless the
/// other side has one that this side lacks: that may be the same one by another name.
void add_lacking_buffers(const Beside& both, const DecidingBuffers& buffers,
                         std::vector<TensorPair>& pairs) {
  if (!has_buffers(both.other.tensors)) return;
  const auto& states = buffers.lone_states.at(both.is_a ? 0 : 1);
  const auto& others = buffers.lone_states.at(both.is_a ? 1 : 0);
  for (const auto& [key, tensor] : both.side.tensors.all()) {
    if (key.kind != Kind::buffer || both.other.tensors.find(key)) continue;
    if (!states.contains(key.name)) {
      pairs.push_back(both.pair(Compared::statistic, key.name, tensor, undefined()));
    } else if (others.empty()) {
      pairs.push_back(both.pair(Compared::buffer, key.name, tensor, undefined()));
    } else {
      const std::string why =
          fmt::format("there is none in {} by this name, but {}, which may be it (--map)",
                      both.name_of_other(), *others.begin());
      pairs.push_back(both.pair(Compared::buffer, key.name, tensor, unknown(why)));
    }
  }
}

void add_buffer(const WholeTensorKey& key, const WholeTensor& tensor, const SideStep& b,
                const DecidingBuffers& buffers, std::vector<TensorPair>& pairs) {
  if (key.kind != Kind::buffer) return;
  const WholeTensor* const other = b.tensors.find(key);
  if (!other) return;
  const bool is_state = buffers.states.contains(key.name);
  const bool decides = is_state || (buffers.are_statistics_of_same && is_of_samples(key.name));
  TensorPair pair{decides ? Compared::buffer : Compared::statistic, key.name, tensor, *other};
  const bool are_of_ranks = !tensor.others.empty() && !other->others.empty();
  if (decides && !is_state && are_of_ranks) {
    // DDP gives those of the first rank to the others before a forward pass, others do not.
    pair.a.problem.clear();
    pair.b.problem.clear();
    pair.ranks = {tensor.rank};
    if (tensor.rank == other->rank) pairs.push_back(std::move(pair));
    return;
  }
  const bool is_known = tensor.problem.empty() && (other->problem.empty() || is_state);
  if (!is_known) return;
  if (!other->others.empty()) {
    pair.of_ranks = other->others;
    pair.of_ranks.push_back(*other);
    pair.of_ranks.back().problem.clear();
  }
  pairs.push_back(std::move(pair));
}

}  // namespace

WholeTensors SideSteps::tensors_of(const StepView& view) const {
  WholeTensors tensors(view);
  if (is_new_) {
    names_.fuse(tensors);
  } else {
    names_.rename(tensors);
  }
  return tensors;
}

SideStep SideSteps::at(std::int64_t step) {
  SideStep now;
  now.view = files_.at(step);
  now.tensors = tensors_of(*now.view);
  Tensors before;
  add_parameters(now.tensors, false, before);
  std::string why_unknown = add_step_before(step, before);
  if (before.empty()) now.before_unknown = std::move(why_unknown);
  now.before = WholeTensors(std::move(before));
  after_.clear();
  add_parameters(now.tensors, true, after_);
  last_ = step;
  return now;
}

/// Adds the parameters after the step before `step`. Returns why they may be others than those
/// before `step`; empty: they are not, as far as known.
std::string SideSteps::add_step_before(std::int64_t step, Tensors& before) {
  if (!files_.has(step - 1)) return fmt::format("step {} was not observed", step - 1);
  const JobRecord& job = files_.job();
  if (std::ranges::binary_search(job.written_before, step)) {
    return fmt::format("they were written between the steps {} and {}, outside of the optimizer",
                       step - 1, step);
  }
  const bool is_next = last_ == step - 1;
  if (!is_next && job.writes_known_until < step) {
    return fmt::format("whether they were written between the steps {} and {} was not recorded",
                       step - 1, step);
  }
  if (has_untold_writes())
    return "they are written between steps, in a way that torch does not count";
  if (is_next) {
    std::move(after_.begin(), after_.end(), std::back_inserter(before));
  } else {
    add_parameters(tensors_of(*files_.at(step - 1)), true, before);
  }
  return "";
}

namespace {

using Digests = std::map<std::pair<int, std::string>, Digest>;

/// Of the parameters of each rank in a phase.
Digests digests_in(const StepView& step, Phase phase) {
  Digests digests;
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& row : step.observations(rank)) {
      const bool is_known = row.kind == Kind::parameter && row.phase == phase;
      if (is_known && row.not_comparable.empty()) digests[{rank, row.name}] = row.digest;
    }
  }
  return digests;
}

/// Whether a parameter has the same bits in both, where it is in both.
bool are_alike(const Digests& one, const Digests& other) {
  return std::ranges::all_of(one, [&](const auto& value) {
    const auto found = other.find(value.first);
    return found == other.end() || found->second == value.second;
  });
}

constexpr std::int64_t kStepsWithBoth = 16;  ///< at the begin: `_STEPS_WITH_BOTH` of the hook

}  // namespace

/// Whether parameters that were observed after a step and before the next one differ, though torch
/// counted no write: code may write to `.data`. The first steps tell it, since both were observed.
bool SideSteps::has_untold_writes() {
  if (has_untold_writes_) return *has_untold_writes_;
  has_untold_writes_ = false;
  const JobRecord& job = files_.job();
  for (const std::int64_t step : files_.steps()) {
    if (step > kStepsWithBoth || job.writes_known_until == 0) break;
    const bool is_told = std::ranges::binary_search(job.written_before, step);
    if (is_told || !files_.has(step - 1)) continue;
    if (are_alike(digests_in(*files_.at(step), Phase::pre_forward),
                  digests_in(*files_.at(step - 1), Phase::post_step))) {
      continue;
    }
    has_untold_writes_ = true;
    break;
  }
  return *has_untold_writes_;
}

std::string parameter_of(const TensorPair& pair) {
  const bool is_state = pair.quantity == Compared::optimizer_state;
  return parameter_of({{}, is_state ? Kind::optimizer_state : Kind::parameter, pair.name});
}

std::vector<TensorPair> pairs_of(const SideStep& a, const SideStep& b,
                                 const DecidingBuffers& buffers) {
  std::vector<TensorPair> pairs;
  for (const auto& [key, tensor] : a.tensors.all()) {
    auto pair = observed_pair(key, tensor, b);
    if (!pair) pair = update_pair(key, tensor, a, b);
    if (!pair) pair = state_pair(key, tensor, a, b);
    if (pair) pairs.push_back(std::move(*pair));
    add_buffer(key, tensor, b, buffers, pairs);
  }
  add_gradients_of_b(a, b, pairs);
  for (const Beside& both : {Beside{a, b, true}, Beside{b, a, false}}) {
    add_lacking_states(both, pairs);
    add_lacking_buffers(both, buffers, pairs);
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const TensorPair& x, const TensorPair& y) {
    return x.quantity < y.quantity;
  });
  return pairs;
}

void add_sizes(const StepView& step, std::vector<KnownSize>& sizes) {
  std::int64_t passes = 0, samples = 0, tokens = 0;
  for (const Observation& row : step.observations(0)) {
    if (row.kind != Kind::data || row.local_shape.empty()) continue;
    passes = std::max(passes, row.micro_batch + 1);
    samples = row.local_shape[0];
    const auto dtype = parse<DType>(row.dtype);
    const bool is_of_words = dtype && unit_roundoff(*dtype) == 0 && row.local_shape.size() == 2;
    if (is_of_words) tokens = samples * row.local_shape[1];
  }
  const int ranks = step.processes();
  add_size(passes, "micro-batches", sizes);
  add_size(samples, "samples of a pass", sizes);
  if (ranks > 1) add_size(ranks * samples, "samples of all ranks", sizes);
  add_size(tokens, "tokens of a pass", sizes);
  if (ranks > 1) add_size(ranks * tokens, "tokens of all ranks", sizes);
}

}  // namespace lockstep
