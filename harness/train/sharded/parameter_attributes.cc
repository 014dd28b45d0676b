#include "harness/train/sharded/parameter_attributes.h"

#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace lockstep {

namespace {

/// Attributes of one tensor. The weak reference keeps its address from being reused.
struct Attributes {
  c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
  std::map<std::string, std::int64_t> values;
};

/// A tensor has no room for attributes that survive `set_data`: its backend metadata are replaced
/// with the data.
class Table {
 public:
  void set(const at::Tensor& tensor, const std::string& name, std::int64_t value) {
    const std::lock_guard lock(mutex_);
    auto found = all_.find(tensor.unsafeGetTensorImpl());
    if (found == all_.end()) {
      std::erase_if(all_, [](const auto& entry) { return entry.second.tensor.expired(); });
      Attributes attributes{c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()), {}};
      found = all_.emplace(tensor.unsafeGetTensorImpl(), std::move(attributes)).first;
    }
    found->second.values[name] = value;
  }

  std::optional<std::int64_t> get(const at::Tensor& tensor, const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(tensor.unsafeGetTensorImpl());
    if (found == all_.end()) return std::nullopt;
    const auto& values = found->second.values;
    const auto value = values.find(name);
    return value == values.end() ? std::nullopt : std::optional(value->second);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const c10::TensorImpl*, Attributes> all_;
};

/// Never destroyed, because tensors may be used until the process ends.
Table& table() {
  static Table& all = *new Table;
  return all;
}

}  // namespace

void set_attribute(const at::Tensor& tensor, const std::string& name, std::int64_t value) {
  table().set(tensor, name, value);
}

std::optional<std::int64_t> attribute(const at::Tensor& tensor, const std::string& name) {
  return table().get(tensor, name);
}

}  // namespace lockstep
