#include "harness/comm/tensor_names.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/record/collective_words.h"

namespace lockstep {
namespace {

/// FNV-1a, never 0. Unlike std::hash it is the same in every process.
std::int32_t id_of(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  const auto id = static_cast<std::int32_t>(hash & 0x7fffffffU);
  return id == 0 ? 1 : id;
}

TensorName named(std::string text) {
  const std::int32_t id = id_of(text);
  return {std::move(text), id};
}

/// Start of a tensor: gradients that share a bucket begin at different offsets of its storage.
struct Start {
  const void* storage = nullptr;  ///< null if there is none
  std::int64_t offset = 0;

  explicit Start(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    storage = tensor.storage().unsafeGetStorageImpl();
    offset = tensor.storage_offset();
  }

  bool operator==(const Start&) const = default;
};

struct StartHash {
  std::size_t operator()(const Start& start) const {
    return std::hash<const void*>()(start.storage) ^
           (static_cast<std::size_t>(start.offset) * 0x9e3779b97f4a7c15U);
  }
};

/// Whether another thread of the autograd engine may be assigning gradients on the tensor's device:
/// each device has a thread of its own, and the CPU has the one that called backward.
bool is_assigned_elsewhere(const at::Tensor& tensor) {
  if (!torch::autograd::get_current_node()) return false;  // no backward calls
  const bool is_main_thread = ::gettid() == ::getpid();
  if (is_main_thread) return !tensor.is_cpu();
  if (tensor.is_cpu()) return true;
  return c10::impl::getDeviceGuardImpl(tensor.device().type())->getDevice() != tensor.device();
}

/// Storages of gradients are created and freed in every step without notice. So the cached position
/// of a tensor is checked each time, and searched again if it is outdated.
class TensorNames {
 public:
  static TensorNames& of_process() {
    static TensorNames& names = *new TensorNames;  // works may end after static objects are gone
    return names;
  }

  void add(const at::Tensor& parameter, const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] =
        places_.try_emplace(parameter.unsafeGetTensorImpl(), parameters_.size());
    Parameter known{Weak(parameter.getIntrusivePtr()), named(name),
                    named(role_in_words(Kind::gradient, name)),
                    named("bucket from the gradient of " + name + " on")};
    if (is_new) {
      parameters_.push_back(std::move(known));
      looks_ += kLooksPerCall;
    } else {
      parameters_[place->second] = std::move(known);
    }
  }

  TensorName find(const at::Tensor& tensor) {
    const Start start(tensor);
    if (!start.storage) return {};
    const std::lock_guard lock(mutex_);
    looks_ = std::min(looks_ + kLooksPerCall, kLooksPerCall * parameters_.size());
    const auto known = by_start_.find(start);
    if (known != by_start_.end()) {
      if (const TensorName* name = name_at(known->second, start, tensor)) return *name;
    }
    // An unnamed tensor would cause a search of all parameters each time.
    if (looks_ < parameters_.size()) return {};
    if (const TensorName* name = search(start, tensor)) return *name;
    looks_ -= parameters_.size();
    return {};
  }

  std::int64_t count() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(parameters_.size());
  }

 private:
  static constexpr std::size_t kLooksPerCall = 16;
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  struct Parameter {
    Weak tensor;
    TensorName name;
    TensorName gradient;
    TensorName bucket;
  };

  /// Null unless the parameter at `index`, or its gradient, begins at `start`.
  const TensorName* name_at(std::size_t index, const Start& start, const at::Tensor& tensor) const {
    const Parameter& parameter = parameters_[index];
    auto alive = parameter.tensor.lock();
    if (!alive) return nullptr;
    const at::Tensor known(std::move(alive));
    // The thread of another device may be assigning its gradient.
    if (known.device() != tensor.device()) return nullptr;
    if (Start(known) == start) {
      return known.numel() == tensor.numel() ? &parameter.name : nullptr;
    }
    const at::Tensor& gradient = known.grad();
    if (Start(gradient) != start) return nullptr;
    return gradient.numel() == tensor.numel() ? &parameter.gradient : &parameter.bucket;
  }

  /// Searches all parameters, outwards from the last one found: gradients are reduced in parameter
  /// order or its reverse.
  const TensorName* search(const Start& start, const at::Tensor& tensor) {
    if (by_start_.size() > 4 * parameters_.size()) by_start_.clear();
    for (std::size_t distance = 0; distance < parameters_.size(); ++distance) {
      for (const std::size_t index : {last_ - distance, last_ + distance}) {
        if (index >= parameters_.size()) continue;
        const TensorName* name = name_at(index, start, tensor);
        if (!name) continue;
        by_start_[start] = last_ = index;
        return name;
      }
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::vector<Parameter> parameters_;  ///< in the order of their first naming
  std::unordered_map<const c10::TensorImpl*, std::size_t> places_;
  std::unordered_map<Start, std::size_t, StartHash> by_start_;
  std::size_t last_ = 0;   ///< index of the parameter found last
  std::size_t looks_ = 0;  ///< parameters that may still be searched without success
};

}  // namespace

void name_parameter(const at::Tensor& parameter, const std::string& name) {
  TensorNames::of_process().add(parameter, name);
}

TensorName name_of(const at::Tensor& tensor) {
  return is_assigned_elsewhere(tensor) ? TensorName() : TensorNames::of_process().find(tensor);
}

TensorName tag_name(const std::string& text) { return named(text); }

std::int64_t parameters_named() { return TensorNames::of_process().count(); }

}  // namespace lockstep
