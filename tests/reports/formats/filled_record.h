#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "reports/record/record_fields.h"

namespace lockstep {

/// Whether a text that is empty is filled, too.
enum class Empty { is_filled, stays };

/// Puts a text into every text field of a record.
inline void fill(std::string& field, const std::string& text, Empty empty) {
  if (!field.empty() || empty == Empty::is_filled) field = text;
}

template <class T>
requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void fill(T&, const std::string&, Empty) {}

template <HasFields T>
void fill(T& record, const std::string& text, Empty empty);
template <class T>
void fill(std::vector<T>& fields, const std::string& text, Empty empty);

template <class T>
void fill(std::optional<T>& field, const std::string& text, Empty empty) {
  if (field) fill(*field, text, empty);
}

inline void fill(std::pair<std::string, std::string>& field, const std::string& text, Empty empty) {
  fill(field.first, text, empty);
  fill(field.second, text, empty);
}

template <class T>
void fill(std::vector<T>& fields, const std::string& text, Empty empty) {
  if constexpr (std::is_arithmetic_v<T>) return;
  for (auto&& field : fields) fill(field, text, empty);
}

template <class T, std::size_t size>
void fill(std::array<T, size>& fields, const std::string& text, Empty empty) {
  for (T& field : fields) fill(field, text, empty);
}

template <HasFields T>
void fill(T& record, const std::string& text, Empty empty) {
  for_each_field<T>([&](const auto& field) { fill(record.*field.member, text, empty); });
}

}  // namespace lockstep
