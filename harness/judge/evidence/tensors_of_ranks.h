#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "harness/record/tensor_table.h"

namespace lockstep {

/// The tensors of an execution, ascending, each with the ranks that observed it, ascending. It
/// takes 24 bytes a tensor and 4 for each rank that observed it, because ranks that divide a model
/// have millions of parts.
class TensorsOfRanks {
 public:
  struct Entry {
    const ObservedTensor& tensor;
    std::span<const int> ranks;
  };

  class Iterator {
   public:
    // NOLINTBEGIN(readability-identifier-naming): the names of the standard library
    using iterator_category = std::input_iterator_tag;
    using value_type = Entry;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = Entry;
    // NOLINTEND(readability-identifier-naming)

    Iterator() = default;
    Iterator(const TensorsOfRanks& all, std::size_t place) : all_(&all), place_(place) {}

    Entry operator*() const { return all_->at(place_); }
    Iterator& operator++() {
      ++place_;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++place_;
      return before;
    }
    bool operator==(const Iterator& other) const { return place_ == other.place_; }

   private:
    const TensorsOfRanks* all_ = nullptr;
    std::size_t place_ = 0;
  };

  TensorsOfRanks() = default;

  /// `observed`: the numbers in `known` of what each rank observed, in any order.
  TensorsOfRanks(std::shared_ptr<const KnownTensors> known,
                 const std::vector<std::vector<std::uint32_t>>& observed);

  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, order_.size()}; }
  std::size_t size() const { return order_.size(); }
  bool empty() const { return order_.empty(); }

 private:
  Entry at(std::size_t place) const;

  std::shared_ptr<const KnownTensors> known_;
  std::vector<std::uint32_t> order_;  ///< numbers of the tensors, ascending by these
  std::vector<std::size_t> begins_;   ///< of a tensor's ranks, by its number; and the end
  std::vector<int> ranks_;
};

}  // namespace lockstep
