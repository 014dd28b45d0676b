#include "harness/train/placement/device_map.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "harness/train/nn/transformer.h"
#include "harness/train/nn/vision_language_model.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

struct PolicyName {
  DevicePolicy policy;
  const char* name;
};
constexpr std::array<PolicyName, 6> kPolicies{
    PolicyName{DevicePolicy::none, "none"},
    PolicyName{DevicePolicy::automatic, "auto"},
    PolicyName{DevicePolicy::balanced, "balanced"},
    PolicyName{DevicePolicy::balanced_low_0, "balanced_low_0"},
    PolicyName{DevicePolicy::sequential, "sequential"},
    PolicyName{DevicePolicy::explicit_map, "a written map"}};

Error usage(const std::string& text) { return {Error::Kind::usage, text}; }

std::string shown(std::string_view name) {
  return name.empty() ? "the whole model" : fmt::format("'{}'", name);
}

bool is_name_inside(std::string_view name, std::string_view outer) {
  return outer.empty() || name == outer ||
         (name.size() > outer.size() && name.starts_with(outer) && name[outer.size()] == '.');
}

const DeviceMapEntry* entry_of(const DeviceMap& map, std::string_view name) {
  const DeviceMapEntry* longest = nullptr;
  for (const DeviceMapEntry& entry : map) {
    if (!is_name_inside(name, entry.name)) continue;
    if (!longest || entry.name.size() > longest->name.size()) longest = &entry;
  }
  return longest;
}

DeviceMapEntry parse_entry(std::string_view pair) {
  const std::size_t equals = pair.find('=');
  if (equals == pair.npos) throw bad_value("a device map", pair, "pairs such as vision=cuda:0");
  const std::string_view device = pair.substr(equals + 1);
  try {
    return {std::string(pair.substr(0, equals)), at::Device(std::string(device))};
  } catch (const c10::Error&) {
    throw bad_value(fmt::format("the device of {}", shown(pair.substr(0, equals))), device,
                    "a device that torch knows, such as cpu or cuda:0");
  }
}

DeviceMap parse_entries(std::string_view text) {
  DeviceMap map;
  while (true) {
    const std::size_t comma = text.find(',');
    map.push_back(parse_entry(text.substr(0, comma)));
    if (comma == text.npos) return map;
    text.remove_prefix(comma + 1);
  }
}

void refuse_doubled_names(const DeviceMap& map) {
  std::set<std::string_view> names;
  for (const DeviceMapEntry& entry : map) {
    if (names.insert(entry.name).second) continue;
    throw usage(fmt::format("A device map has {} twice: {}. Give each name once.",
                            shown(entry.name), to_string(map)));
  }
}

/// Every tensor at every position in the model, in model order.
void list_tensors(const Module& module, const std::string& name, std::vector<NamedTensor>& all) {
  for (const NamedTensor& own : module.own_tensors()) {
    all.push_back({joined(name, own.name), own.tensor});
  }
  for (const Module::Part& part : module.children()) {
    list_tensors(*part.module, joined(name, part.name), all);
  }
}

void list_parts(const Module& module, const std::string& name, std::vector<std::string>& all) {
  all.push_back(name);
  for (const Module::Part& part : module.children()) {
    list_parts(*part.module, joined(name, part.name), all);
  }
}

/// A name without a part is a misspelling.
void refuse_unknown_names(const DeviceMap& map, const Module& model) {
  std::vector<std::string> known;
  list_parts(model, "", known);
  std::vector<NamedTensor> tensors;
  list_tensors(model, "", tensors);
  for (const NamedTensor& tensor : tensors) known.push_back(tensor.name);
  for (const DeviceMapEntry& entry : map) {
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const std::string& name) {
      return is_name_inside(name, entry.name);
    });
    if (is_known) continue;
    known.erase(known.begin());  // the whole model has no listed name
    throw unknown_name("part of the model", entry.name, known);
  }
}

/// Every tensor must have exactly one device.
void refuse_unclear_places(const DeviceMap& map, const Module& model) {
  std::vector<NamedTensor> tensors;
  list_tensors(model, "", tensors);
  std::map<const c10::TensorImpl*, const NamedTensor*> first;
  for (const NamedTensor& tensor : tensors) {
    const auto device = device_of(map, tensor.name);
    if (!device) {
      throw usage(fmt::format(
          "The device map {} lacks '{}'. Add it, or \"\" for everything that is not named.",
          to_string(map), tensor.name));
    }
    const NamedTensor& other =
        *first.emplace(tensor.tensor.unsafeGetTensorImpl(), &tensor).first->second;
    if (*device_of(map, other.name) == *device) continue;
    throw usage(
        fmt::format("The device map {} divides one tensor: '{}' and '{}' are the same. "
                    "Give both the same device.",
                    to_string(map), other.name, tensor.name));
  }
}

/// The single device of all tensors of a part; empty if they have several, or there are no tensors.
std::optional<at::Device> common_device(const Module& module, const std::string& name,
                                        const DeviceMap& map) {
  std::vector<NamedTensor> tensors;
  list_tensors(module, name, tensors);
  std::optional<at::Device> common;
  for (const NamedTensor& tensor : tensors) {
    const auto device = device_of(map, tensor.name);
    if (common && *common != *device) return std::nullopt;
    common = device;
  }
  return common;
}

std::int64_t bytes_of(const std::vector<NamedTensor>& tensors) {
  std::int64_t bytes = 0;
  for (const NamedTensor& entry : tensors) {
    bytes += static_cast<std::int64_t>(entry.tensor.nbytes());
  }
  return bytes;
}

void move(const std::vector<NamedTensor>& tensors, at::Device device, const std::string& part) {
  const at::NoGradGuard no_grad;
  const std::int64_t bytes = bytes_of(tensors);
  for (const NamedTensor& entry : tensors) {
    at::Tensor tensor = entry.tensor;
    try {
      tensor.set_data(tensor.to(device));
    } catch (c10::Error& error) {
      error.add_context(fmt::format("while {} of {} bytes was placed on {}, at its tensor '{}'",
                                    shown(part), bytes, device.str(), entry.name));
      throw;
    }
  }
}

std::vector<NamedTensor> each_once(const Module& module, const std::string& name) {
  std::vector<NamedTensor> all, once;
  list_tensors(module, name, all);
  std::set<const c10::TensorImpl*> listed;
  for (NamedTensor& tensor : all) {
    if (listed.insert(tensor.tensor.unsafeGetTensorImpl()).second)
      once.push_back(std::move(tensor));
  }
  return once;
}

/// Includes parts of a part, because models call them directly.
void run_all_on(Module& module, at::Device device, const std::string& name) {
  module.run_on(device, name);
  for (const Module::Part& part : module.children()) {
    run_all_on(*part.module, device, joined(name, part.name));
  }
}

void place_part(Module& module, const std::string& name, const DeviceMap& map) {
  if (const auto device = common_device(module, name, map)) {
    move(each_once(module, name), *device, name);
    run_all_on(module, *device, name);
    return;
  }
  for (const NamedTensor& own : module.own_tensors()) {
    const std::string tensor = joined(name, own.name);
    move({{tensor, own.tensor}}, *device_of(map, tensor), tensor);
  }
  for (const Module::Part& part : module.children()) {
    place_part(*part.module, joined(name, part.name), map);
  }
}

}  // namespace

std::string to_string(DevicePolicy policy) {
  return std::find_if(kPolicies.begin(), kPolicies.end(),
                      [&](const PolicyName& known) { return known.policy == policy; })
      ->name;
}

std::string to_string(const DeviceMap& map) {
  std::vector<std::string> entries;
  for (const DeviceMapEntry& entry : map) {
    entries.push_back(fmt::format("\"{}\": \"{}\"", entry.name, entry.device.str()));
  }
  return fmt::format("{{{}}}", fmt::join(entries, ", "));
}

std::optional<at::Device> device_of(const DeviceMap& map, std::string_view name) {
  const DeviceMapEntry* const entry = entry_of(map, name);
  return entry ? std::optional(entry->device) : std::nullopt;
}

DeviceMapRequest parse_device_map(std::string_view text) {
  if (text.find('=') != text.npos) {
    DeviceMapRequest request{DevicePolicy::explicit_map, parse_entries(text)};
    refuse_doubled_names(request.map);
    return request;
  }
  std::vector<std::string> words;
  for (const auto& [policy, name] : kPolicies) {
    if (policy == DevicePolicy::explicit_map) continue;
    if (text == name) return {policy};
    words.emplace_back(name);
  }
  words.emplace_back("NAME=DEVICE,...");
  throw unknown_name("device map", text, words);
}

std::string to_string(const DeviceMapRequest& request) {
  return request.policy == DevicePolicy::explicit_map ? to_string(request.map)
                                                      : to_string(request.policy);
}

std::string joined(std::string_view outer, std::string_view name) {
  return outer.empty() ? std::string(name) : fmt::format("{}.{}", outer, name);
}

std::int64_t bytes_of(const Module& module) { return bytes_of(each_once(module, "")); }

IsIndivisible residual_blocks() {
  return [](const std::string&, const Module& module) {
    return dynamic_cast<const TransformerBlock*>(&module) != nullptr ||
           dynamic_cast<const LanguageBlock*>(&module) != nullptr;
  };
}

IsIndivisible parts_named(std::vector<std::string> names) {
  return [names = std::move(names)](const std::string& name, const Module&) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
}

DeviceMap resolve_device_map(const DeviceMapRequest& request, const Module& model,
                             const PlacementOptions& options) {
  if (request.policy != DevicePolicy::explicit_map) {
    return infer_device_map(model, request.policy, options);
  }
  refuse_doubled_names(request.map);
  refuse_unknown_names(request.map, model);
  return request.map;
}

void place(Module& model, const DeviceMap& map) {
  if (map.empty()) return;
  refuse_doubled_names(map);
  refuse_unknown_names(map, model);
  refuse_unclear_places(map, model);
  place_part(model, "", map);
}

}  // namespace lockstep
