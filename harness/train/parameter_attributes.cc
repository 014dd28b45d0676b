#include "harness/train/parameter_attributes.h"

#include <c10/core/TensorImpl.h>

#include <map>

namespace lockstep {

namespace {

/// What torch keeps for backends with a tensor, and hands on where metadata are copied.
struct Attributes : c10::BackendMeta {
  c10::intrusive_ptr<c10::BackendMeta> clone(
      const c10::intrusive_ptr<c10::BackendMeta>& /*self*/) const override {
    auto copy = c10::make_intrusive<Attributes>();
    copy->values = values;
    return copy;
  }

  std::map<std::string, std::int64_t> values;
};

Attributes* attributes_of(const at::Tensor& tensor) {
  return dynamic_cast<Attributes*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
}

}  // namespace

void set_attribute(const at::Tensor& tensor, const std::string& name, std::int64_t value) {
  if (attributes_of(tensor) == nullptr) {
    tensor.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<Attributes>());
  }
  attributes_of(tensor)->values[name] = value;
}

std::optional<std::int64_t> attribute(const at::Tensor& tensor, const std::string& name) {
  const Attributes* attributes = attributes_of(tensor);
  if (attributes == nullptr) return std::nullopt;
  const auto found = attributes->values.find(name);
  return found == attributes->values.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace lockstep
