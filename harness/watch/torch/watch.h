#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/watch/lockstep_watch.h"

// For training loops in C++17 or newer, with any LibTorch: link lockstep::watch and your own torch.

namespace lockstep {

/// A parameter of a model. The members after `tensor` are for one that ranks divide; a rank holds
/// one part of it, under a name that it has once.
struct WatchedParameter {
  std::string name;
  at::Tensor tensor;                            ///< what this rank holds
  std::string replica_group = {};               ///< ranks of equal group hold copies; empty: all
  std::vector<std::int64_t> global_shape = {};  ///< of which it is a part; empty: it is whole
  std::vector<std::int64_t> offset = {};        ///< of the part in it
  /// The gradient is the sum of those of all groups, as that of a norm under sequence parallelism.
  bool has_summand = false;
};

/// Those of a model, in an order that all ranks have.
using WatchedParameters = std::vector<WatchedParameter>;

struct WatchOptions {
  std::string folder;  ///< of the run, new, the same on all ranks; empty: runs/<utc>, for one rank
  int rank = 0;
  int world_size = 1;
  std::string title = "a LibTorch program";  ///< in reports
  bool is_group_readable = false;  ///< the group may read the run's folder; else its owner alone
  std::int64_t agree_every = 0;    ///< ranks need to agree in one of so many steps; 0: all
  std::uint64_t keep_bytes = std::uint64_t{256}
                             << 20;  ///< of values, once a report finds a difference
};

namespace watch_details {

inline std::string dtype_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kChar:
      return "int8";
    case at::kShort:
      return "int16";
    case at::kInt:
      return "int32";
    case at::kLong:
      return "int64";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    case at::kComplexFloat:
      return "complex64";
    case at::kComplexDouble:
      return "complex128";
    default:
      return c10::toString(type);
  }
}

/// Why the bytes of a tensor cannot be read; empty: they can.
inline std::string reason_without_bytes(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined: no gradient";
  if (tensor.layout() != at::kStrided) return "a layout without strides";
  if (tensor.is_meta()) return "a meta tensor";
  return tensor.is_quantized() ? "a quantized dtype" : "";
}

/// The tensor with its own bits.
inline at::Tensor plain(const at::Tensor& tensor) {
  return tensor.detach().resolve_conj().resolve_neg();
}

/// The tensor in the memory of the CPU. Requires: it has its own bits.
inline at::Tensor in_memory(const at::Tensor& tensor) {
  return tensor.device().is_cpu() ? tensor : tensor.cpu();
}

/// The driver's handle of a stream. Returns false if this torch does not say it, as 2.6 does not.
template <class Stream>
auto find_handle(const Stream& stream, void*& handle, int)
    -> decltype(stream.native_handle(), bool()) {
  try {
    handle = stream.native_handle();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}
template <class Stream>
bool find_handle(const Stream& /*stream*/, void*& /*handle*/, long /*otherwise*/) {
  return false;
}

/// The same of the current stream of a GPU. The default one has none.
inline bool find_current_stream(at::Device gpu, void*& handle) {
  const c10::Stream stream = c10::impl::VirtualGuardImpl(gpu.type()).getStream(gpu);
  handle = nullptr;
  return stream.id() == 0 || find_handle(stream, handle, 0);
}

template <class Model, class = void>
struct IsModule : std::false_type {};
template <class Model>
struct IsModule<Model, std::void_t<decltype(std::declval<const Model&>().named_parameters())>>
    : std::true_type {};

/// Of a module, or of what holds one.
template <class Model>
WatchedParameters parameters_of(const Model& model) {
  if constexpr (IsModule<Model>::value) {
    WatchedParameters parameters;
    for (const auto& item : model.named_parameters()) {
      parameters.push_back({item.key(), item.value()});
    }
    return parameters;
  } else {
    return parameters_of(*model);
  }
}

inline std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

}  // namespace watch_details

/// Observes the training of one rank, as the hook of `lockstep watch` does for Python; `lockstep
/// report FOLDER` says whether the ranks agree. Under `lockstep watch`, the files go to its folder.
///
///     lockstep::Watch watch({"runs/one", rank, world_size});
///     for (...) {
///       ... backward
///       watch.after_backward(model);
///       ... reduction of the gradients
///       watch.before_step(model);
///       optimizer.step();
///       watch.after_step(model);
///     }
///     watch.close();
///
/// It communicates with nobody and changes no tensor. Tensors of a GPU are read after the earlier
/// and before the later work of its current stream, without waiting for it, or else copied to the
/// host.
///
/// A failure while the loop trains, such as a full disk, prints a line to standard error and throws
/// nothing: the rank is no longer observed then, and the verdict stays undecided. Calls in a wrong
/// order throw std::runtime_error.
class Watch {
 public:
  /// Throws std::runtime_error with a sentence for the user if the folder holds an earlier job or
  /// cannot be written. Under `lockstep watch`, which chose the folder, that is a failure like
  /// later ones.
  explicit Watch(const WatchOptions& options) : rank_(options.rank) {
    const std::string folder = watch_details::variable("LOCKSTEP_WATCH_FOLDER");
    const std::string job = watch_details::variable("LOCKSTEP_WATCH_JOB");
    if (folder.empty()) {
      agree_every_ = options.agree_every;
      const auto [own_folder, own_job] = create(options);
      open(options, own_folder, own_job, true);
    } else {
      agree_every_ = std::atoll(watch_details::variable("LOCKSTEP_WATCH_AGREE_EVERY").c_str());
      attempt([&] { open(options, folder, job, false); });
    }
  }

  /// Ends the training; `close` should have done so. An exception that unwinds is its error.
  ~Watch() {
    if (is_closed_) return;
    const bool is_unwinding = std::uncaught_exceptions() > exceptions_;
    end(is_unwinding ? "an exception left the training loop" : nullptr);
  }

  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Observes, in steps 2 and 3 and in each 32nd, what this rank has of the gradients of the coming
  /// step before ranks reduce them: a report tells by them how they were reduced. All ranks call it
  /// after each backward pass, or none does.
  template <class Model>
  void after_backward(const Model& model) {
    after_backward(watch_details::parameters_of(model));
  }

  void after_backward(const WatchedParameters& parameters) {
    require_open();
    if (is_in_step_) {
      throw std::runtime_error("after_backward was called between before_step and after_step.");
    }
    const std::int64_t pass = passes_++;
    const std::int64_t step = step_ + 1;
    const bool is_due = step == 2 || step == 3 || step % kEvery == 0;
    if (!is_due || agree_every_ > 0 || pass > kMostPasses) return;
    attempt([&] {
      observe("post_backward", "contribution", contributions_of(parameters, pass), pass,
              {lockstep_watch_observe_next, lockstep_watch_observe_next_on_gpu});
    });
  }

  /// Begins a step and observes the gradients that the optimizer is about to use; the first time
  /// also the parameters. `model`: a module, what holds one, or WatchedParameters.
  template <class Model>
  void before_step(const Model& model) {
    before_step(watch_details::parameters_of(model));
  }

  void before_step(const WatchedParameters& parameters) {
    require_open();
    ++step_;
    passes_ = 0;
    is_in_step_ = true;
    attempt([&] {
      require(lockstep_watch_begin_step(watch_, step_));
      if (step_ == 1 || agree_every_ > 0 || lockstep_watch_keeps(watch_) == 1) {
        observe("pre_forward", "parameter", values_of(parameters));
      }
      observe("pre_step", "gradient", gradients_of(parameters));
    });
  }

  /// Observes the parameters that the optimizer has changed, and ends the step.
  template <class Model>
  void after_step(const Model& model) {
    after_step(watch_details::parameters_of(model));
  }

  void after_step(const WatchedParameters& parameters) {
    require_open();
    if (!is_in_step_) throw std::runtime_error("after_step was called without before_step.");
    is_in_step_ = false;
    attempt([&] {
      observe("post_step", "parameter", values_of(parameters));
      require(lockstep_watch_end_step(watch_));
    });
  }

  /// Ends the training of a rank that finished. The last rank completes the record of the job.
  void close() {
    require_open();
    end(nullptr);
  }

 private:
  /// Steps whose contributions are observed, and passes of one, as the hook of Python has them.
  static constexpr std::int64_t kEvery = 32;
  static constexpr std::int64_t kMostPasses = 16;

  /// A tensor to observe, and why its value cannot be compared; empty: it can.
  struct Value {
    at::Tensor tensor;
    std::string reason;
    const WatchedParameter* of;
    std::string replica_group;
    bool is_summand = false;
  };

  /// The functions of the library that record values.
  struct Into {
    std::int32_t (*in_memory)(lockstep_watch*, const lockstep_watch_value*, std::int64_t);
    std::int32_t (*on_gpu)(lockstep_watch*, const lockstep_watch_value*, std::int64_t, void*);
  };

  /// What makes a tensor another one for the library.
  using Key = std::tuple<std::string, std::string, std::string, std::vector<std::int64_t>>;

  void open(const WatchOptions& options, const std::string& folder, const std::string& job,
            bool is_created) {
    lockstep_watch_options opened = {};
    opened.folder = folder.c_str();
    opened.job = job.c_str();
    opened.rank = options.rank;
    opened.world_size = options.world_size;
    opened.keep_bytes = options.keep_bytes;
    opened.is_created = is_created ? 1 : 0;
    watch_ = lockstep_watch_open(&opened);
    if (!watch_) fail();
  }

  /// Folder of the job's files, and its id.
  std::pair<std::string, std::string> create(const WatchOptions& options) {
    if (options.folder.empty() && options.world_size > 1) {
      throw std::runtime_error(
          "The watch needs a folder, because each rank would make one of its own: give all "
          "ranks the same new folder.");
    }
    const lockstep_watch_job job = {options.folder.c_str(),
                                    options.title.c_str(),
                                    options.agree_every,
                                    options.rank,
                                    options.world_size,
                                    options.is_group_readable ? 1 : 0,
                                    nullptr};
    lockstep_watch_joined joined = {};
    require(lockstep_watch_create(&job, &joined));
    return {joined.folder, joined.job};
  }

  static std::vector<Value> values_of(const WatchedParameters& parameters) {
    std::vector<Value> values;
    for (const WatchedParameter& parameter : parameters) {
      values.push_back({parameter.tensor, watch_details::reason_without_bytes(parameter.tensor),
                        &parameter, parameter.replica_group});
    }
    return values;
  }

  static std::vector<Value> gradients_of(const WatchedParameters& parameters) {
    std::vector<Value> values;
    for (const WatchedParameter& parameter : parameters) {
      if (!parameter.tensor.requires_grad()) continue;
      const at::Tensor& gradient = parameter.tensor.grad();
      values.push_back({gradient, watch_details::reason_without_bytes(gradient), &parameter,
                        parameter.replica_group, parameter.has_summand});
    }
    return values;
  }

  /// Of the parameters that each rank has whole. After too many passes they are not known.
  std::vector<Value> contributions_of(const WatchedParameters& parameters,
                                      std::int64_t pass) const {
    std::vector<Value> values;
    for (Value& value : gradients_of(parameters)) {
      if (!value.tensor.defined() || value.is_summand || !value.of->global_shape.empty()) continue;
      if (pass == kMostPasses) value.reason = "it had too many backward passes";
      value.replica_group = "rank " + std::to_string(rank_);
      values.push_back(std::move(value));
    }
    return values;
  }

  /// The rows of tensors, undefined without bytes, that are measured together.
  struct Observed {
    std::vector<at::Tensor> tensors = {};
    std::vector<lockstep_watch_value> values = {};
  };

  void observe(const char* phase, const char* kind, const std::vector<Value>& values,
               std::int64_t pass = 0,
               Into into = {lockstep_watch_observe, lockstep_watch_observe_on_gpu}) {
    std::map<int, Observed> by_gpu;  // -1: none
    for (const Value& value : values) {
      const at::Tensor local =
          value.reason.empty() ? watch_details::plain(value.tensor) : at::Tensor();
      Observed& observed = by_gpu[gpu_of(local)];
      observed.tensors.push_back(local);
      observed.values.push_back({number_of(phase, kind, value, local), pass, nullptr, nullptr});
    }
    for (auto& [gpu, observed] : by_gpu) {
      if (gpu < 0 || !is_observed_on(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(gpu)),
                                     observed, into)) {
        observe_in_memory(observed, into);
      }
    }
  }

  /// The GPU that measures a tensor; -1: it is measured on the CPU.
  int gpu_of(const at::Tensor& tensor) const {
    const bool is_on_gpu = tensor.defined() && tensor.is_cuda() && tensor.is_contiguous();
    return is_on_gpu && measures_on_gpus_ ? tensor.get_device() : -1;
  }

  bool is_observed_on(at::Device gpu, Observed& observed, Into into) {
    void* stream = nullptr;
    if (!watch_details::find_current_stream(gpu, stream)) return false;
    for (std::size_t i = 0; i < observed.tensors.size(); ++i) {
      observed.values[i].data = observed.tensors[i].data_ptr();
    }
    const c10::DeviceGuard guard(gpu);
    const std::int32_t result = into.on_gpu(
        watch_, observed.values.data(), static_cast<std::int64_t>(observed.values.size()), stream);
    require(result);
    measures_on_gpus_ = result == 0;
    return measures_on_gpus_;
  }

  void observe_in_memory(Observed& observed, Into into) {
    for (std::size_t i = 0; i < observed.tensors.size(); ++i) {
      at::Tensor& local = observed.tensors[i];
      if (!local.defined()) continue;
      local = watch_details::in_memory(local);
      observed.values[i].data = local.data_ptr();
      if (!local.is_contiguous()) observed.values[i].strides = local.strides().data();
    }
    require(into.in_memory(watch_, observed.values.data(),
                           static_cast<std::int64_t>(observed.values.size())));
  }

  std::int64_t number_of(const char* phase, const char* kind, const Value& value,
                         const at::Tensor& local) {
    const std::string dtype =
        local.defined() ? watch_details::dtype_name(local.scalar_type()) : std::string();
    const std::vector<std::int64_t> shape =
        local.defined() ? local.sizes().vec() : std::vector<std::int64_t>();
    const auto [found, is_new] =
        numbers_.try_emplace(Key(std::string(phase) + " " + kind, value.of->name,
                                 dtype + value.reason + value.replica_group, shape),
                             std::int64_t{-1});
    if (is_new) {
      found->second = described(phase, kind, value, dtype, shape);
    }
    require(found->second);
    return found->second;
  }

  /// The number of a tensor that the library does not know yet.
  std::int64_t described(const char* phase, const char* kind, const Value& value,
                         const std::string& dtype, const std::vector<std::int64_t>& shape) {
    const WatchedParameter& parameter = *value.of;
    const bool is_part = !parameter.global_shape.empty() && !dtype.empty();
    if (is_part && (parameter.global_shape.size() != shape.size() ||
                    parameter.offset.size() != shape.size())) {
      throw std::runtime_error("The part of " + parameter.name + " has " +
                               std::to_string(shape.size()) +
                               " dimensions: give its global_shape and offset as many.");
    }
    lockstep_watch_tensor tensor = {};
    tensor.phase = phase;
    tensor.kind = kind;
    tensor.name = parameter.name.c_str();
    tensor.dtype = dtype.c_str();
    tensor.dimensions = static_cast<std::int32_t>(shape.size());
    tensor.is_summand = value.is_summand ? 1 : 0;
    tensor.local_shape = shape.data();
    tensor.global_shape = is_part ? parameter.global_shape.data() : nullptr;
    tensor.offset = is_part ? parameter.offset.data() : nullptr;
    tensor.replica_group = value.replica_group.c_str();
    tensor.not_comparable = value.reason.c_str();
    return lockstep_watch_describe(watch_, &tensor);
  }

  void require_open() const {
    if (is_closed_) throw std::runtime_error("The watch was closed.");
  }

  /// Calls it, unless a call has failed.
  template <class Call>
  void attempt(const Call& call) {
    if (has_failed_) {
      note_failure();
      return;
    }
    try {
      call();
    } catch (const std::exception& error) {
      has_failed_ = true;
      std::fprintf(stderr, "lockstep: rank %d is no longer observed: %s\n", rank_, error.what());
      unnoted_ = error.what();
      note_failure();
    }
  }

  /// Without it the steps so far would be taken for all. If it cannot be written, later calls try
  /// again.
  void note_failure() {
    if (!watch_ || unnoted_.empty()) return;
    if (lockstep_watch_give_up(watch_, unnoted_.c_str()) == 0) unnoted_.clear();
  }

  /// `error`: what ends the rank; null: it finished.
  void end(const char* error) {
    is_closed_ = true;
    attempt([&] { require(lockstep_watch_end(watch_, error)); });
    if (!watch_) return;
    const std::int32_t result = lockstep_watch_close(std::exchange(watch_, nullptr));
    attempt([&] { require(result); });
  }

  static void require(std::int64_t result) {
    if (result < 0) fail();
  }

  [[noreturn]] static void fail() { throw std::runtime_error(lockstep_watch_error()); }

  lockstep_watch* watch_ = nullptr;  ///< null: closed, or it could not be opened
  int rank_;
  std::int64_t step_ = 0;
  std::int64_t passes_ = 0;  ///< backward passes since then
  bool is_in_step_ = false;
  std::int64_t agree_every_ = 0;
  std::map<Key, std::int64_t> numbers_;  ///< of the tensors
  bool is_closed_ = false;
  bool has_failed_ = false;
  std::string unnoted_;  ///< why it has, until that is on record
  bool measures_on_gpus_ = true;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace lockstep
