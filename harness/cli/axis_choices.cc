#include "harness/cli/axis_choices.h"

#include <cstddef>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace lockstep {

namespace {

/// A value of an axis beside a value of a later axis.
struct Pair {
  std::size_t first_axis = 0;
  std::size_t first_value = 0;
  std::size_t second_axis = 0;
  std::size_t second_value = 0;

  auto operator<=>(const Pair&) const = default;
};

/// The index of the chosen value on every axis; nothing where none is chosen yet.
using Row = std::vector<std::optional<std::size_t>>;

std::set<Pair> pairs_of(const std::vector<AxisRange>& axes) {
  std::set<Pair> pairs;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    for (std::size_t b = a + 1; b < axes.size(); ++b) {
      for (std::size_t i = 0; i < axes[a].values.size(); ++i) {
        for (std::size_t j = 0; j < axes[b].values.size(); ++j) pairs.insert({a, i, b, j});
      }
    }
  }
  return pairs;
}

Pair pair_of(std::size_t a, std::size_t i, std::size_t b, std::size_t j) {
  return a < b ? Pair{a, i, b, j} : Pair{b, j, a, i};
}

/// How many pairs that are still missing `value` on `axis` makes with what `row` has chosen.
std::size_t gain(const Row& row, std::size_t axis, std::size_t value,
                 const std::set<Pair>& missing) {
  std::size_t pairs = 0;
  for (std::size_t other = 0; other < row.size(); ++other) {
    if (other == axis || !row[other]) continue;
    pairs += missing.count(pair_of(axis, value, other, *row[other]));
  }
  return pairs;
}

std::size_t best_value(const Row& row, std::size_t axis, std::size_t values,
                       const std::set<Pair>& missing) {
  std::size_t best = 0;
  for (std::size_t value = 1; value < values; ++value) {
    if (gain(row, axis, value, missing) > gain(row, axis, best, missing)) best = value;
  }
  return best;
}

/// A row that has the first missing pair, so that every row makes progress.
Row next_row(const std::vector<AxisRange>& axes, const std::set<Pair>& missing) {
  Row row(axes.size());
  const Pair& first = *missing.begin();
  row[first.first_axis] = first.first_value;
  row[first.second_axis] = first.second_value;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    if (!row[axis]) row[axis] = best_value(row, axis, axes[axis].values.size(), missing);
  }
  return row;
}

Choice choice_of(const std::vector<AxisRange>& axes, const Row& row) {
  Choice choice;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    choice.push_back({axes[axis].axis, axes[axis].values[*row[axis]]});
  }
  return choice;
}

}  // namespace

std::vector<Choice> all_choices(const std::vector<AxisRange>& axes) {
  std::vector<Choice> choices{{}};
  for (const AxisRange& axis : axes) {
    std::vector<Choice> longer;
    for (const Choice& choice : choices) {
      for (const std::string& value : axis.values) {
        longer.push_back(choice);
        longer.back().push_back({axis.axis, value});
      }
    }
    choices = std::move(longer);
  }
  return choices;
}

std::vector<Choice> pairwise_choices(const std::vector<AxisRange>& axes) {
  if (axes.size() < 2) return all_choices(axes);
  std::vector<Choice> choices;
  for (std::set<Pair> missing = pairs_of(axes); !missing.empty();) {
    const Row row = next_row(axes, missing);
    choices.push_back(choice_of(axes, row));
    for (std::size_t a = 0; a < row.size(); ++a) {
      for (std::size_t b = a + 1; b < row.size(); ++b) missing.erase({a, *row[a], b, *row[b]});
    }
  }
  return choices;
}

}  // namespace lockstep
