#include "harness/checkpoint/pickled_torch.h"

#include <algorithm>
#include <array>
#include <string>

namespace lockstep {

namespace {

/// In the order of DType.
constexpr std::array<std::string_view, 12> kStorages{
    "Float", "Double", "Half", "BFloat16", "Char",         "Short",
    "Int",   "Long",   "Byte", "Bool",     "ComplexFloat", "ComplexDouble"};

constexpr std::string_view kTorch = "torch.";
constexpr std::string_view kStorage = "Storage";
constexpr std::int64_t kLargestItem = 16;  // bytes of complex128

}  // namespace

std::optional<DType> dtype_of_global(std::string_view global) {
  if (!global.starts_with(kTorch)) return std::nullopt;
  return parse<DType>(std::string(global.substr(kTorch.size())));
}

std::optional<DType> dtype_of_storage(std::string_view global) {
  if (!global.starts_with(kTorch) || !global.ends_with(kStorage)) return std::nullopt;
  global.remove_prefix(kTorch.size());
  if (global.size() < kStorage.size()) return std::nullopt;
  global.remove_suffix(kStorage.size());
  const auto at = std::find(kStorages.begin(), kStorages.end(), global);
  if (at == kStorages.end()) return std::nullopt;
  return static_cast<DType>(at - kStorages.begin());
}

std::optional<std::vector<std::int64_t>> whole_numbers(PickleRef value) {
  if (type_of(value) == "torch.Size") {  // torch.Size((2, 3))
    const auto* const arguments = pickled<PickleList>(pickled<PickleObject>(value)->arguments);
    if (!arguments || arguments->items.size() != 1) return std::nullopt;
    value = arguments->items[0];
  }
  const auto* const list = pickled<PickleList>(value);
  if (!list || list->items.size() > kMostDimensions) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const PickleRef item : list->items) {
    const auto* const number = pickled<std::int64_t>(item);
    if (!number || *number < 0) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<std::int64_t> stored_count(const std::vector<std::int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t bytes = kLargestItem;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes / kLargestItem;
}

}  // namespace lockstep
