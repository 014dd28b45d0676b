#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace lockstep {

/// The words of an enumeration for files and the command line, in the order of its enumerators.
/// Every enumeration that is written anywhere specialises it.
template <class Enum>
struct Names;  // static constexpr std::array<std::string_view, N> values

/// The word of `value`.
template <class Enum>
constexpr std::string_view name(Enum value) {
  return Names<Enum>::values.at(static_cast<std::size_t>(value));
}

/// The enumerator with the word `word`; empty if there is none.
template <class Enum>
constexpr std::optional<Enum> parse(std::string_view word) {
  for (std::size_t i = 0; i < Names<Enum>::values.size(); ++i) {
    if (Names<Enum>::values[i] == word) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace lockstep
