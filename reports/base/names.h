#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The words of an enumeration for files and the command line, in the order of its enumerators.
/// Every enumeration that is written anywhere specialises it.
template <class Enum>
struct Names;  // static constexpr std::array<std::string_view, N> values

/// Whether an enumeration has an enumerator of this value: compilers write any other value as a
/// cast.
template <auto kValue>
constexpr bool is_enumerator() {
  constexpr std::string_view kBefore = "kValue = ";
  const std::string_view text = __PRETTY_FUNCTION__;
  return text[text.rfind(kBefore) + kBefore.size()] != '(';
}

/// The word of `value`.
template <class Enum>
constexpr std::string_view name(Enum value) {
  constexpr std::size_t kWords = Names<Enum>::values.size();
  static_assert(!is_enumerator<static_cast<Enum>(kWords)>(), "an enumerator has no word");
  static_assert(is_enumerator<static_cast<Enum>(kWords - 1)>(), "a word has no enumerator");
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

/// The words of these values.
template <class Enum>
std::vector<std::string> names_of(const std::vector<Enum>& enumerators) {
  std::vector<std::string> words;
  for (const Enum one : enumerators) words.emplace_back(name(one));
  return words;
}

/// All its words.
template <class Enum>
std::vector<std::string> all_names() {
  return {Names<Enum>::values.begin(), Names<Enum>::values.end()};
}

}  // namespace lockstep
