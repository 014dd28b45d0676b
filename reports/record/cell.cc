#include "reports/record/cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace lockstep {

std::string folder_of(const Cell& cell, DeviceKind default_device) {
  std::string folder = fmt::format("{}/{}/w{}", cell.scenario, cell.variant, cell.world_size);
  if (cell.backend != Cell().backend) folder += fmt::format("-backend={}", name(cell.backend));
  if (cell.device != default_device) folder += fmt::format("-device={}", name(cell.device));
  for (const AxisValue& axis : unusual_choices(cell)) {
    folder += fmt::format("-{}={}", axis.axis, axis.value);
  }
  if (cell.repetition > 1) folder += fmt::format("-repetition={}", cell.repetition);
  return folder;
}

std::vector<AxisValue> unusual_choices(const Cell& cell) {
  std::vector<AxisValue> choices = cell.axes;
  std::erase_if(choices, [](const AxisValue& chosen) { return chosen.is_default; });
  return choices;
}

std::string title_of(const Cell& cell) {
  std::string title =
      fmt::format("{}/{}, {}", cell.scenario, cell.variant,
                  conditions(cell.world_size, cell.backend, cell.device, cell.axes));
  if (cell.repetition > 1) title += fmt::format(", repetition {}", cell.repetition);
  return title;
}

std::string conditions(int world_size, Backend backend, DeviceKind device,
                       const std::vector<AxisValue>& axes) {
  std::string words = fmt::format("{} {}", world_size, world_size == 1 ? "rank" : "ranks");
  if (backend != Cell().backend) words += fmt::format(" over {}", name(backend));
  words += on_device(device);
  for (const AxisValue& axis : axes) words += fmt::format(", {}={}", axis.axis, axis.value);
  return words;
}

std::string on_device(DeviceKind device) {
  return device == DeviceKind::cpu ? "" : fmt::format(" on {}", name(device));
}

namespace {

const AxisValue* find_value(const Cell& cell, std::string_view axis) {
  for (const auto* values : {&cell.axes, &cell.sets}) {
    for (const AxisValue& value : *values) {
      if (value.axis == axis) return &value;
    }
  }
  return nullptr;
}

}  // namespace

bool has_axis(const Cell& cell, std::string_view axis) { return find_value(cell, axis) != nullptr; }

const std::string& axis_value(const Cell& cell, std::string_view axis) {
  const AxisValue* const found = find_value(cell, axis);
  if (!found) {
    throw std::out_of_range(
        fmt::format("{}/{} has no axis '{}'", cell.scenario, cell.variant, axis));
  }
  return found->value;
}

bool is_set(const Cell& cell, std::string_view axis, std::string_view value) {
  const AxisValue* const found = find_value(cell, axis);
  return found && found->value == value;
}

std::int64_t number_on(const Cell& cell, std::string_view axis) {
  return std::stoll(axis_value(cell, axis));
}

}  // namespace lockstep
