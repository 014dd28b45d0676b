#include "harness/train/placement/quantised_weights.h"

#include <fmt/format.h>

#include <string>

#include "harness/train/nn/quantised_linear.h"
#include "harness/train/placement/device_map.h"

namespace lockstep {

namespace {

void check_part(const Module& module, const std::string& name, at::Device training_device) {
  if (dynamic_cast<const QuantisedLinear*>(&module)) {
    const at::Device device = module.own_tensors().front().tensor.device();
    if (device != training_device) {
      throw Refusal(fmt::format(
          "Lockstep's own check: the quantised weights of '{}' are on {}, and this rank "
          "trains on {}. Load them there, with the device map {{\"\": \"{}\"}}. accelerate: \"You "
          "can't train a model that has been loaded in 8-bit or 4-bit precision on a different "
          "device than the one you're training on.\"",
          name, device.str(), training_device.str(), training_device.str()));
    }
  }
  for (const Module::Part& part : module.children()) {
    check_part(*part.module, joined(name, part.name), training_device);
  }
}

}  // namespace

void check_quantised_weights(const Module& model, at::Device training_device) {
  check_part(model, "", training_device);
}

}  // namespace lockstep
