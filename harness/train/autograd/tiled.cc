#include "harness/train/autograd/tiled.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

#include "harness/train/autograd/segment_rerun.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

using Tensors = std::vector<at::Tensor>;

/// The sum if both are defined; otherwise the defined one, or undefined.
at::Tensor sum(const at::Tensor& a, const at::Tensor& more) {
  if (!a.defined()) return more;
  return more.defined() ? a + more : a;
}

/// Like a trainer that adds to a gradient by hand.
void add_in_place(at::Tensor& gradient, const at::Tensor& more, bool clones_first) {
  if (!gradient.defined()) {
    gradient = more.defined() && clones_first ? more.clone() : more;
  } else if (more.defined()) {
    gradient.add_(more);
  }
}

/// Data that backward needs about one call.
struct Tiles : torch::CustomClassHolder {
  TileFunction function;
  Tensors parameters;  // that require a gradient
  TilingOptions options;
  std::vector<SegmentRerun> reruns;  // one per tile, after forward

  /// Forward of the next tile.
  Tensors run(const at::Tensor& rows) {
    const CheckpointOptions kept{
        .generators = options.generators,
        .restore_random = options.random != TileRandom::drawn_anew,
        .restore_autocast = options.restores_autocast,
    };
    reruns.emplace_back([f = function](const Tensors& inputs) { return f(inputs.front()); }, kept);
    return reruns.back().forward({rows});
  }

  Tensors run_again(std::size_t tile, const at::Tensor& rows) const {
    return reruns[options.random == TileRandom::first_for_all ? 0 : tile].again({rows});
  }

  Tensors split(const at::Tensor& tensor) const {
    switch (options.cut) {
      case TileCut::even_rows:
        return tensor.flatten(0, -2).tensor_split(options.tiles);
      case TileCut::chunked_rows:
        return tensor.flatten(0, -2).chunk(options.tiles);
      case TileCut::chunked_sequence:
        return tensor.chunk(options.tiles, tensor.dim() - 2);
    }
    return {};
  }

  /// Number of leading dimensions of `input` that remain in a tile.
  std::int64_t leading_dims(const at::Tensor& input) const {
    return options.cut == TileCut::chunked_sequence ? input.dim() - 1 : 1;
  }

  /// Joins the `parts` of all tiles of `input`, [leading dimensions of a tile, ...], into a tensor
  /// with the leading dimensions of `input`.
  at::Tensor join(const Tensors& parts, const at::Tensor& input) const {
    const std::int64_t leading = leading_dims(input);
    const at::Tensor rows = at::cat(parts, leading - 1);
    std::vector<std::int64_t> shape = input.sizes().vec();
    shape.pop_back();
    shape.insert(shape.end(), rows.sizes().begin() + leading, rows.sizes().end());
    return rows.reshape(shape);
  }

  /// The part of `whole` for `tile`, if tiles are cut to the shapes of `inputs`: a view.
  at::Tensor slice(const at::Tensor& whole, std::size_t tile, const Tensors& inputs) const {
    const std::int64_t features = whole.size(-1);
    const auto elements = [&](const at::Tensor& input) {
      return input.numel() / input.size(-1) * features;
    };
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < tile; ++i) {
      begin += elements(inputs[options.slices == TileSlices::fixed_step ? 0 : i]);
    }
    std::vector<std::int64_t> shape = inputs[tile].sizes().vec();
    shape.back() = features;
    return whole.view(-1).narrow(0, begin, elements(inputs[tile])).view(shape);
  }

  Tensors slices(const at::Tensor& gradient, const Tensors& inputs) const {
    if (options.slices == TileSlices::own) return split(gradient);
    const at::Tensor buffer = gradient.contiguous();
    Tensors parts;
    for (std::size_t tile = 0; tile < inputs.size(); ++tile) {
      parts.push_back(slice(buffer, tile, inputs));
    }
    return parts;
  }
};

/// One tile recomputed with grad: its outputs and, if defined, their gradients.
struct Recomputed {
  std::int64_t tile = 0;
  at::Tensor input;
  Tensors outputs;
  Tensors gradients;
};

/// The backward of one call, tile by tile.
class TiledBackward {
 public:
  TiledBackward(const Tiles& tiles, const at::Tensor& input, const Tensors& output_gradients)
      : tiles_(tiles), inputs_(tiles.split(input)) {
    for (const at::Tensor& gradient : output_gradients) {
      const bool is_taken = output_gradients_.empty() || tiles.options.carries_all_outputs;
      output_gradients_.push_back(gradient.defined() && is_taken ? tiles.slices(gradient, inputs_)
                                                                 : Tensors(inputs_.size()));
    }
  }

  void run() {
    if (!has_work()) return;
    switch (tiles_.options.backward) {
      case TileBackward::backward_per_tile:
        return backward_per_tile();
      case TileBackward::grad_but_last:
        return grad_but_last();
      case TileBackward::explicit_inputs:
        return explicit_inputs();
    }
  }

  /// Has the shape of `input`; undefined if no output has a gradient.
  at::Tensor input_gradient(const at::Tensor& input) const {
    if (input_gradients_.empty()) return {};
    if (tiles_.options.slices == TileSlices::own) {
      return tiles_.join(input_gradients_, input);
    }
    const at::Tensor whole = at::zeros_like(input, at::MemoryFormat::Contiguous);
    for (std::size_t tile = 0; tile < input_gradients_.size(); ++tile) {
      tiles_.slice(whole, tile, inputs_).copy_(input_gradients_[tile]);
    }
    return whole;
  }
  /// Of the parameters, for explicit inputs.
  const Tensors& parameter_gradients() const { return sums_; }

 private:
  bool has_work() const {
    return std::any_of(output_gradients_.begin(), output_gradients_.end(),
                       [](const Tensors& by_tile) { return by_tile.front().defined(); });
  }

  TileTurn turn_of(const Recomputed& tile) const {
    return {.tile = tile.tile,
            .pieces = static_cast<std::int64_t>(inputs_.size()),
            .asked = tiles_.options.tiles,
            .parameters = &tiles_.parameters};
  }

  Recomputed recompute(std::size_t tile) {
    Recomputed recomputed;
    recomputed.tile = static_cast<std::int64_t>(tile);
    if (tiles_.options.before_tile) tiles_.options.before_tile(turn_of(recomputed));
    recomputed.input = inputs_[tile].detach().requires_grad_(true);
    const Tensors outputs = tiles_.run_again(tile, recomputed.input);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!output_gradients_[i][tile].defined()) continue;
      recomputed.outputs.push_back(outputs[i]);
      recomputed.gradients.push_back(output_gradients_[i][tile]);
    }
    return recomputed;
  }

  /// The real backward: parameter hooks run.
  void backward(const Recomputed& tile) {
    torch::autograd::backward(tile.outputs, tile.gradients);
    finish(tile, tile.input.grad());
  }

  /// Of the parameters; no hook runs.
  Tensors gradients_of(const Recomputed& tile) {
    Tensors inputs{tile.input};
    inputs.insert(inputs.end(), tiles_.parameters.begin(), tiles_.parameters.end());
    Tensors gradients = torch::autograd::grad(tile.outputs, inputs, tile.gradients,
                                              /*retain_graph=*/std::nullopt,
                                              /*create_graph=*/false, /*allow_unused=*/true);
    if (!tiles_.options.guards_input_gradient) at::zeros_like(tile.input).copy_(gradients.front());
    finish(tile, gradients.front());
    gradients.erase(gradients.begin());
    return gradients;
  }

  /// Outputs need not depend on the input, whose gradient is then undefined.
  void finish(const Recomputed& tile, const at::Tensor& gradient) {
    input_gradients_.push_back(gradient.defined() ? gradient : at::zeros_like(tile.input));
    if (tiles_.options.after_tile) tiles_.options.after_tile(turn_of(tile));
  }

  bool sets_aside() const { return tiles_.options.accumulation == TileAccumulation::set_aside; }

  void set_gradients_aside() {
    sums_.clear();
    for (const at::Tensor& parameter : tiles_.parameters) {
      sums_.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
    }
  }

  void put_gradients_back() {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      tiles_.parameters[i].mutable_grad() = std::exchange(sums_[i], at::Tensor());
    }
  }

  void backward_per_tile() {
    if (sets_aside()) set_gradients_aside();
    for (std::size_t tile = 0; tile < inputs_.size(); ++tile) {
      backward(recompute(tile));
      if (!sets_aside()) continue;
      const Tensors before = std::exchange(sums_, {});
      set_gradients_aside();
      for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] = sum(before[i], sums_[i]);
    }
    if (sets_aside()) put_gradients_back();
  }

  void grad_but_last() {
    const std::size_t last = inputs_.size() - 1;
    if (sets_aside()) set_gradients_aside();
    for (std::size_t tile = 0; tile < last; ++tile) {
      const Tensors gradients = gradients_of(recompute(tile));
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (sets_aside()) {
          sums_[i] = sum(sums_[i], gradients[i]);
        } else {
          add_in_place(tiles_.parameters[i].mutable_grad(), gradients[i],
                       tiles_.options.clones_first_gradient);
        }
      }
      if (sets_aside() && tile + 1 == last) put_gradients_back();
    }
    backward(recompute(last));
  }

  void explicit_inputs() {
    sums_.resize(tiles_.parameters.size());
    for (std::size_t tile = 0; tile < inputs_.size(); ++tile) {
      const Tensors gradients = gradients_of(recompute(tile));
      for (std::size_t i = 0; i < gradients.size(); ++i) sums_[i] = sum(sums_[i], gradients[i]);
    }
  }

  const Tiles& tiles_;
  Tensors inputs_;                         // by tile
  std::vector<Tensors> output_gradients_;  // by output and tile; undefined if there is none
  Tensors input_gradients_;                // by tile
  Tensors sums_;                           // by parameter
};

void require_as_many(const Tiles& tiles, const Tensors& inputs) {
  const auto pieces = static_cast<std::int64_t>(inputs.size());
  if (!tiles.options.refuses_fewer_tiles || pieces == tiles.options.tiles) return;
  throw std::invalid_argument(
      fmt::format("the input gives {} tiles where {} were asked for", pieces, tiles.options.tiles));
}

class TiledFunction : public torch::autograd::Function<TiledFunction> {
 public:
  static Tensors forward(torch::autograd::AutogradContext* context,
                         const c10::intrusive_ptr<Tiles>& tiles, const at::Tensor& input,
                         at::TensorList /*parameters*/) {
    context->set_materialize_grads(false);
    context->save_for_backward({input});
    context->saved_data["tiles"] = c10::IValue::make_capsule(tiles);
    std::vector<Tensors> outputs;  // by output and tile
    const Tensors inputs = tiles->split(input);
    require_as_many(*tiles, inputs);
    for (const at::Tensor& rows : inputs) {
      const Tensors of_tile = tiles->run(rows);
      outputs.resize(of_tile.size());
      for (std::size_t i = 0; i < of_tile.size(); ++i) outputs[i].push_back(of_tile[i]);
    }
    Tensors whole;
    for (const Tensors& parts : outputs) whole.push_back(tiles->join(parts, input));
    return whole;
  }

  static Tensors backward(torch::autograd::AutogradContext* context, Tensors output_gradients) {
    const auto tiles =
        c10::static_intrusive_pointer_cast<Tiles>(context->saved_data["tiles"].toCapsule());
    const at::Tensor input = context->get_saved_variables().front();
    TiledBackward backward(*tiles, input, output_gradients);
    backward.run();
    Tensors gradients{at::Tensor(), backward.input_gradient(input)};
    if (tiles->options.backward == TileBackward::explicit_inputs) {
      Tensors more = backward.parameter_gradients();
      more.resize(tiles->parameters.size());
      gradients.insert(gradients.end(), more.begin(), more.end());
    }
    return gradients;
  }
};

}  // namespace

std::int64_t chunk_pieces(std::int64_t length, std::int64_t tiles) {
  const std::int64_t rows = (length + tiles - 1) / tiles;
  return (length + rows - 1) / rows;
}

std::vector<at::Tensor> tiled(const TileFunction& function, const Tensors& parameters,
                              const at::Tensor& input, const TilingOptions& options) {
  const std::int64_t rows =
      input.dim() < 2 ? 0 : input.numel() / std::max<std::int64_t>(1, input.size(-1));
  const std::int64_t most =
      options.cut == TileCut::even_rows ? rows : std::numeric_limits<std::int64_t>::max();
  if (options.tiles < 1 || options.tiles > most || rows == 0) {
    throw bad_value("number of tiles", std::to_string(options.tiles),
                    fmt::format("1 to {}, the rows of the input", rows));
  }
  const auto tiles = c10::make_intrusive<Tiles>();
  tiles->function = function;
  tiles->options = options;
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(tiles->parameters),
               [](const at::Tensor& parameter) { return parameter.requires_grad(); });
  const bool shows_parameters = options.backward == TileBackward::explicit_inputs;
  return TiledFunction::apply(tiles, input,
                              at::TensorList(shows_parameters ? tiles->parameters : Tensors()));
}

at::Tensor tiled(Module& module, const at::Tensor& input, const TilingOptions& options) {
  const TileFunction forward = [&module](const at::Tensor& rows) {
    return std::vector<at::Tensor>{module.forward(rows)};
  };
  return tiled(forward, module.parameters(), input, options).front();
}

void tile_calls(Module& module, const TilingOptions& options) {
  module.wrap_calls([&module, options](const at::Tensor& input, const Module::Forward& forward) {
    const TileFunction function = [forward](const at::Tensor& rows) {
      return Tensors{forward(rows)};
    };
    return tiled(function, module.parameters(), input, options).front();
  });
}

}  // namespace lockstep
