#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "harness/record/splitmix64.h"

namespace lockstep {

/// Entries by key, in the order in which they were added: millions of them, without memory of
/// their own for each. They take their size and about 8 bytes. None is removed, and none moves.
///
/// `Entry` is made of a key, has it as `key()`, and does not change it. `Hash` gives 64 bits of a
/// key. At most 2^32 - 2 entries.
template <class Entry, class Hash>
class CompactMap {
 public:
  /// The entry of a key, and whether it is new.
  template <class Key>
  std::pair<Entry*, bool> add(const Key& key) {
    if (4 * (entries_.size() + 1) > 3 * slots_.size()) grow();
    std::uint32_t& slot = slots_[slot_of(key)];
    if (slot != kFree) return {&entries_[slot - 1], false};
    entries_.emplace_back(key);
    slot = static_cast<std::uint32_t>(entries_.size());
    return {&entries_.back(), true};
  }

  /// Null: there is none.
  template <class Key>
  const Entry* find(const Key& key) const {
    if (slots_.empty()) return nullptr;
    const std::uint32_t slot = slots_[slot_of(key)];
    return slot == kFree ? nullptr : &entries_[slot - 1];
  }

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  const Entry& operator[](std::size_t i) const { return entries_[i]; }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  /// The entries alone, in less memory.
  std::deque<Entry> take() && {
    slots_ = {};
    return std::move(entries_);
  }
  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }

 private:
  static constexpr std::uint32_t kFree = 0;  ///< else the number of an entry, from 1

  /// Of the entry with the key, or the free one in which it belongs.
  template <class Key>
  std::size_t slot_of(const Key& key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = splitmix64(Hash()(key)) & mask;
    while (slots_[slot] != kFree && !(entries_[slots_[slot] - 1].key() == key)) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  void grow() {
    constexpr std::size_t kFewest = 16;
    slots_.assign(slots_.empty() ? kFewest : 2 * slots_.size(), kFree);
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      std::size_t slot = splitmix64(Hash()(entries_[i].key())) & mask;
      while (slots_[slot] != kFree) slot = (slot + 1) & mask;
      slots_[slot] = static_cast<std::uint32_t>(i + 1);
    }
  }

  std::deque<Entry> entries_;
  std::vector<std::uint32_t> slots_;  ///< a power of two
};

/// 64 bits of two numbers after those before.
constexpr std::uint64_t mixed(std::uint64_t before, std::uint32_t a, std::uint32_t b) {
  return splitmix64(before ^ (std::uint64_t{a} << 32 | b));
}

}  // namespace lockstep
