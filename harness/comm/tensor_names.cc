#include "harness/comm/tensor_names.h"

#include <c10/util/intrusive_ptr.h>

#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

/// FNV-1a, never 0: a number that does not depend on the process, unlike std::hash.
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

const void* storage_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl()
                                                  : nullptr;
}

/// Storages of gradients come and go with every step, and nobody tells: what is looked up is found
/// in an index of the storages as they were, held against what they are, and indexed anew when it
/// is not there.
class Names {
 public:
  static Names& of_process() {
    static Names& names = *new Names;  // works may end after static objects are gone
    return names;
  }

  void add(const at::Tensor& parameter, const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] =
        places_.try_emplace(parameter.unsafeGetTensorImpl(), parameters_.size());
    Parameter known{Weak(parameter.getIntrusivePtr()), named(name), named("gradient of " + name)};
    if (is_new) {
      parameters_.push_back(std::move(known));
    } else {
      parameters_[place->second] = std::move(known);
    }
  }

  TensorName find(const at::Tensor& tensor) {
    const void* const storage = storage_of(tensor);
    if (!storage) return {};
    const std::lock_guard lock(mutex_);
    ++lookups_;
    if (const TensorName* name = look_up(storage)) return *name;
    // What is nobody's would have all parameters looked at each time.
    if (lookups_ < parameters_.size()) return {};
    index();
    const TensorName* name = look_up(storage);
    return name ? *name : TensorName{};
  }

  std::int64_t count() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(parameters_.size());
  }

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  struct Parameter {
    Weak tensor;
    TensorName name;
    TensorName gradient;
  };
  struct Place {
    std::size_t parameter;
    bool is_gradient;
  };

  static at::Tensor alive(const Parameter& parameter) {
    auto tensor = parameter.tensor.lock();
    return tensor ? at::Tensor(std::move(tensor)) : at::Tensor();
  }

  const TensorName* look_up(const void* storage) const {
    const auto found = by_storage_.find(storage);
    if (found == by_storage_.end()) return nullptr;
    const Parameter& parameter = parameters_[found->second.parameter];
    const at::Tensor tensor = alive(parameter);
    if (!tensor.defined()) return nullptr;
    if (!found->second.is_gradient) {
      return storage_of(tensor) == storage ? &parameter.name : nullptr;
    }
    return storage_of(tensor.grad()) == storage ? &parameter.gradient : nullptr;
  }

  void index() {
    by_storage_.clear();
    lookups_ = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor tensor = alive(parameters_[i]);
      if (!tensor.defined()) continue;
      by_storage_.try_emplace(storage_of(tensor), Place{i, false});
      // Of gradients that share a bucket the first one names it.
      if (tensor.grad().defined())
        by_storage_.try_emplace(storage_of(tensor.grad()), Place{i, true});
    }
  }

  std::mutex mutex_;
  std::vector<Parameter> parameters_;  ///< in the order in which they were first named
  std::unordered_map<const c10::TensorImpl*, std::size_t> places_;
  std::unordered_map<const void*, Place> by_storage_;
  std::size_t lookups_ = 0;  ///< since the last index
};

}  // namespace

void name_parameter(const at::Tensor& parameter, const std::string& name) {
  Names::of_process().add(parameter, name);
}

TensorName name_of(const at::Tensor& tensor) { return Names::of_process().find(tensor); }

TensorName tag_name(const std::string& text) { return named(text); }

std::int64_t parameters_named() { return Names::of_process().count(); }

}  // namespace lockstep
