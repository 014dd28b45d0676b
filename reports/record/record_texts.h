#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "reports/record/record_fields.h"

namespace lockstep {

template <class Value>
inline constexpr bool kIsList = false;
template <class Value>
inline constexpr bool kIsList<std::vector<Value>> = true;
template <class Value, std::size_t size>
inline constexpr bool kIsList<std::array<Value, size>> = true;
template <class Value>
inline constexpr bool kIsOptional = false;
template <class Value>
inline constexpr bool kIsOptional<std::optional<Value>> = true;

/// Calls `visit(field, text)` with every text in a part of a record that has fields, and with the
/// name of the field that holds it, alone or in a list.
template <class Value, class Visit>
void for_each_text(Value& value, const Visit& visit, std::string_view field = {}) {
  if constexpr (std::is_same_v<Value, std::string>) {
    visit(field, value);
  } else if constexpr (kIsList<Value>) {
    if constexpr (!std::is_arithmetic_v<typename Value::value_type>) {
      for (auto& one : value) for_each_text(one, visit, field);
    }
  } else if constexpr (kIsOptional<Value>) {
    if (value) for_each_text(*value, visit, field);
  } else if constexpr (HasFields<Value>) {
    for_each_field<Value>(
        [&](const auto& one) { for_each_text(value.*one.member, visit, one.name); });
  }
}

}  // namespace lockstep
