#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace lockstep {

/// A value that the process stores once, however many hold it: names and shapes, which the tensors
/// of many ranks and steps share. It is as small to copy, and as fast to compare, as the number
/// that it is: 4 bytes. A value stays stored until the process ends. Any thread. At most 2^32 - 1
/// values of a type.
template <class T>
class Interned {
 public:
  Interned() = default;
  // It stands for its value wherever one is read or assigned.
  Interned(const T& value) : number_(stored(value)) {}  // NOLINT(google-explicit-constructor)
  Interned(std::initializer_list<typename T::value_type> value) : number_(stored(T(value))) {}
  template <std::convertible_to<std::string_view> Text>
  requires std::same_as<T, std::string> Interned(
      const Text& text)  // NOLINT(google-explicit-constructor)
      : number_(stored(T(std::string_view(text)))) {}

  operator const T&() const { return **this; }  // NOLINT(google-explicit-constructor)
  operator std::string_view() const             // NOLINT(google-explicit-constructor)
      requires std::same_as<T, std::string> {
    return **this;
  }
  const T& operator*() const { return number_ == 0 ? none() : at(number_); }
  const T* operator->() const { return &**this; }

  /// Equal for equal values, and only then. It may be another one in the next process.
  std::uint32_t number() const { return number_; }

  bool empty() const { return number_ == 0; }
  std::size_t size() const { return (**this).size(); }
  auto begin() const { return (**this).begin(); }
  auto end() const { return (**this).end(); }
  const typename T::value_type* data() const { return (**this).data(); }
  const typename T::value_type& operator[](std::size_t i) const { return (**this)[i]; }

  friend bool operator==(const Interned& a, const Interned& b) { return a.number_ == b.number_; }
  friend std::strong_ordering operator<=>(const Interned& a, const Interned& b) {
    return a.number_ == b.number_ ? std::strong_ordering::equal : *a <=> *b;
  }
  template <class Other>
  requires(!std::same_as<Other, Interned>) friend bool operator==(const Interned& a,
                                                                  const Other& b) {
    return *a == b;
  }

 private:
  static std::size_t hash_of(const T& value) {
    if constexpr (std::same_as<T, std::string>) {
      return std::hash<std::string>()(value);
    } else {
      std::size_t hash = value.size();
      for (const auto& one : value) {
        hash = (hash ^ std::hash<typename T::value_type>()(one)) * 0x9e3779b97f4a7c15;
      }
      return hash;
    }
  }

  // Values lie in blocks that never move: the first holds the numbers below 2^kFirst, each other
  // one as many as all before it.
  static constexpr int kFirst = 8;
  static int block_of(std::uint32_t number) {
    return static_cast<int>(std::bit_width(number >> kFirst));
  }
  static std::uint32_t first_of(int block) { return block == 0 ? 0 : 1U << (kFirst + block - 1); }
  static const T& at(std::uint32_t number) {
    const int block = block_of(number);
    return blocks[static_cast<std::size_t>(block)][number - first_of(block)];
  }

  static const T& none() {
    static const T& value = *new T();  // never destroyed: other static objects may hold values
    return value;
  }

  static std::uint32_t stored(T value) {
    if (value.empty()) return 0;
    static std::mutex mutex;
    static auto& numbers = *new std::unordered_multimap<std::size_t, std::uint32_t>();  // by hash
    const std::size_t hash = hash_of(value);
    const std::lock_guard lock(mutex);
    const auto [first, last] = numbers.equal_range(hash);
    for (auto known = first; known != last; ++known) {
      if (at(known->second) == value) return known->second;
    }
    const auto number = static_cast<std::uint32_t>(numbers.size() + 1);
    const int place = block_of(number);
    T*& block = blocks[static_cast<std::size_t>(place)];
    if (!block) block = new T[std::size_t{1} << (kFirst + std::max(place - 1, 0))];
    block[number - first_of(place)] = std::move(value);
    numbers.emplace(hash, number);
    return number;
  }

  inline static std::array<T*, 33 - kFirst> blocks{};  // written under the lock alone

  std::uint32_t number_ = 0;  ///< 0: the empty value
};

template <class Other>
std::string operator+(const Interned<std::string>& a, const Other& b) {
  return *a + b;
}

template <class Other>
requires(!std::same_as<Other, Interned<std::string>>) std::string operator+(
    const Other& a, const Interned<std::string>& b) {
  return a + *b;
}

}  // namespace lockstep

template <>
struct fmt::formatter<lockstep::Interned<std::string>> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const lockstep::Interned<std::string>& text, Context& context) const {
    return fmt::formatter<std::string_view>::format(*text, context);
  }
};
