#include "harness/plan/axis_choices.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "harness/record/splitmix64.h"

namespace lockstep {

namespace {

/// The index of the chosen value on every axis.
using Row = std::vector<std::size_t>;

constexpr std::size_t kNoValue = std::numeric_limits<std::size_t>::max();

/// A value of an axis, and its number among the values of all axes.
struct Value {
  std::size_t axis = 0;
  std::size_t value = 0;
};

/// Two values of two axes, the first axis first.
struct Pair {
  Value first;
  Value second;
};

/// Numbers the values of all axes consecutively, and stores the pairs that are not covered yet.
class Pairs {
 public:
  explicit Pairs(const std::vector<AxisRange>& axes) {
    for (const AxisRange& axis : axes) {
      offsets_.push_back(values_.size());
      for (std::size_t value = 0; value < axis.values.size(); ++value) {
        values_.push_back({offsets_.size() - 1, value});
      }
    }
    missing_.assign(values_.size() * values_.size(), 0);
    for (std::size_t a = 0; a < values_.size(); ++a) {
      for (std::size_t b = 0; b < values_.size(); ++b) {
        missing_[a * values_.size() + b] = values_[a].axis != values_[b].axis ? 1 : 0;
      }
    }
  }

  /// The first missing pair, searched from the previous one on.
  std::optional<Pair> first_missing() {
    for (; first_ < missing_.size(); ++first_) {
      if (missing_[first_] == 0) continue;
      return Pair{values_[first_ / values_.size()], values_[first_ % values_.size()]};
    }
    return std::nullopt;
  }

  /// Number of missing pairs between a value and the values of `row` on other axes.
  std::size_t gain(const Row& row, std::size_t axis, std::size_t value) const {
    const std::size_t* const of_axes = offsets_.data();
    const std::uint8_t* const with = &missing_[(of_axes[axis] + value) * values_.size()];
    std::size_t pairs = 0;
    for (std::size_t other = 0; other < row.size(); ++other) {
      if (other != axis && row[other] != kNoValue) pairs += with[of_axes[other] + row[other]];
    }
    return pairs;
  }

  /// Number of missing pairs that a row covers.
  std::size_t gain(const Row& row) const {
    std::size_t pairs = 0;
    for (std::size_t axis = 0; axis < row.size(); ++axis) pairs += gain(row, axis, row[axis]);
    return pairs / 2;
  }

  void cover(const Row& row) {
    for (std::size_t a = 0; a < row.size(); ++a) {
      for (std::size_t b = 0; b < row.size(); ++b) drop(offsets_[a] + row[a], offsets_[b] + row[b]);
    }
  }

  void give_up(const Pair& pair) {
    const std::size_t a = offsets_[pair.first.axis] + pair.first.value;
    const std::size_t b = offsets_[pair.second.axis] + pair.second.value;
    drop(a, b);
    drop(b, a);
  }

 private:
  void drop(std::size_t a, std::size_t b) { missing_[a * values_.size() + b] = 0; }

  std::vector<Value> values_;
  std::vector<std::size_t> offsets_;   ///< of the first value of every axis
  std::vector<std::uint8_t> missing_;  ///< by two values, in both orders
  std::size_t first_ = 0;
};

AxisValue chosen_on(const AxisRange& axis, const std::string& value) {
  return {axis.axis, value, value == axis.default_value};
}

Choice choice_of(const std::vector<AxisRange>& axes, const Row& row) {
  Choice choice;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    choice.push_back(chosen_on(axes[axis], axes[axis].values[row[axis]]));
  }
  return choice;
}

/// Builds the rows one after another.
class Construction {
 public:
  Construction(const std::vector<AxisRange>& axes, const Obstacle& obstacle)
      : axes_(axes), obstacle_(obstacle), pairs_(axes) {
    good_ = any_of(axes_);
  }

  PairwiseChoices run() {
    while (const auto pair = pairs_.first_missing()) {
      const Row row = greedy_row(*pair);
      std::string reason = why_not(row);
      if (reason.empty()) {
        add(row);
      } else {
        unrun_.try_emplace(std::move(reason), row);
        add_other_row(row, *pair);
      }
    }
    for (const auto& [reason, row] : unrun_) result_.choices.push_back(choice_of(axes_, row));
    return std::move(result_);
  }

 private:
  std::string why_not(const Row& row) const { return why_not_of(axes_, row); }

  void add(const Row& row) {
    result_.choices.push_back(choice_of(axes_, row));
    pairs_.cover(row);
    good_ = row;
  }

  /// A row that contains the pair and, chosen axis by axis, covers the most missing pairs.
  Row greedy_row(const Pair& pair) const {
    Row row(axes_.size(), kNoValue);
    row[pair.first.axis] = pair.first.value;
    row[pair.second.axis] = pair.second.value;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      if (row[axis] != kNoValue) continue;
      std::size_t best = 0;
      std::size_t most = pairs_.gain(row, axis, 0);
      for (std::size_t value = 1; value < axes_[axis].values.size(); ++value) {
        const std::size_t pairs = pairs_.gain(row, axis, value);
        if (pairs <= most) continue;
        best = value;
        most = pairs;
      }
      row[axis] = best;
    }
    return row;
  }

  /// Gives up a pair that cannot be run together, or one with a value that can never be run.
  void add_other_row(const Row& row, const Pair& pair) {
    std::optional<Row> other;
    if (good_) {
      other = best_near(row, pair);
      if (!other) {
        Row moved = *good_;
        moved[pair.first.axis] = pair.first.value;
        moved[pair.second.axis] = pair.second.value;
        other = best_near(moved, pair);
      }
      if (!other) other = any_with(pair);
    }
    if (other) {
      add(*other);
    } else {
      if (good_) ++result_.uncovered;
      pairs_.give_up(pair);
    }
  }

  /// The runnable row that covers the most, among rows that differ from `row` on as few axes as
  /// possible, at most two. Keeps the values of the pair.
  std::optional<Row> best_near(const Row& row, const Pair& pair) const {
    if (why_not(row).empty()) return row;
    std::optional<Row> best;
    std::size_t most = 0;
    const auto consider = [&](const Row& candidate) {
      const std::size_t pairs = pairs_.gain(candidate);
      if (pairs <= most || !why_not(candidate).empty()) return;
      best = candidate;
      most = pairs;
    };
    for_each_change(row, pair, 0, consider);
    if (best) return best;
    for_each_change(row, pair, 0, [&](const Row& changed, std::size_t axis) {
      for_each_change(changed, pair, axis + 1, consider);
    });
    return best;
  }

  /// Calls `visit` with `row` changed on one axis, from `begin` on, in every way. Also passes the
  /// axis if `visit` takes one.
  template <class Visit>
  void for_each_change(const Row& row, const Pair& pair, std::size_t begin, Visit visit) const {
    Row changed = row;
    for (std::size_t axis = begin; axis < row.size(); ++axis) {
      if (axis == pair.first.axis || axis == pair.second.axis) continue;
      for (std::size_t value = 0; value < axes_[axis].values.size(); ++value) {
        if (value == row[axis]) continue;
        changed[axis] = value;
        if constexpr (std::is_invocable_v<Visit, const Row&, std::size_t>) {
          visit(changed, axis);
        } else {
          visit(changed);
        }
      }
      changed[axis] = row[axis];
    }
  }

  /// A runnable row with the pair.
  std::optional<Row> any_with(const Pair& pair) const {
    std::vector<AxisRange> rest = axes_;
    for (const Value& fixed : {pair.first, pair.second}) {
      rest[fixed.axis].values = {axes_[fixed.axis].values[fixed.value]};
    }
    std::optional<Row> found = any_of(rest);
    if (!found) return std::nullopt;
    for (const Value& fixed : {pair.first, pair.second}) (*found)[fixed.axis] = fixed.value;
    return found;
  }

  /// A runnable row of `axes`: the first of all if they are few, otherwise of a fixed sample.
  std::optional<Row> any_of(const std::vector<AxisRange>& axes) const {
    const bool takes_all = count_choices(axes) <= kMostLookedAt;
    std::uint64_t seed = 0;
    Row row(axes.size(), 0);
    for (std::size_t looked = 0; looked < kMostLookedAt; ++looked) {
      if (why_not_of(axes, row).empty()) return row;
      if (takes_all && !advance(row, axes)) break;
      if (!takes_all) sample(row, axes, seed);
    }
    return std::nullopt;
  }

  std::string why_not_of(const std::vector<AxisRange>& axes, const Row& row) const {
    return obstacle_ ? obstacle_(choice_of(axes, row)) : "";
  }

  /// Draws a random number for each value.
  static void sample(Row& row, const std::vector<AxisRange>& axes, std::uint64_t& seed) {
    for (std::size_t axis = 0; axis < row.size(); ++axis) {
      row[axis] = splitmix64(seed) % axes[axis].values.size();
      seed += kSplitmixStep;
    }
  }

  static bool advance(Row& row, const std::vector<AxisRange>& axes) {
    for (std::size_t axis = row.size(); axis-- > 0;) {
      if (++row[axis] < axes[axis].values.size()) return true;
      row[axis] = 0;
    }
    return false;
  }

  static constexpr std::size_t kMostLookedAt = 2'000;

  const std::vector<AxisRange>& axes_;
  const Obstacle& obstacle_;
  Pairs pairs_;
  std::optional<Row> good_;           ///< the last runnable row; empty: none found
  std::map<std::string, Row> unrun_;  ///< the first row for each reason that it cannot be run
  PairwiseChoices result_;
};

/// The values that occur in the choices taken so far.
class ValuesInChoices {
 public:
  /// Moves the choice with the most values that do not occur yet from `list` to `taken`, if it has
  /// at least `least` of them. False: no choice was moved.
  bool take_best(std::vector<Choice>& list, std::ptrdiff_t least, std::vector<Choice>& taken) {
    if (list.empty()) return false;
    const auto has_fewer = [&](const Choice& a, const Choice& b) { return new_in(a) < new_in(b); };
    const auto best = std::max_element(list.begin(), list.end(), has_fewer);
    if (new_in(*best) < least) return false;
    for (const AxisValue& value : *best) occurs_.emplace(value.axis, value.value);
    taken.push_back(std::move(*best));
    list.erase(best);
    return true;
  }

 private:
  std::ptrdiff_t new_in(const Choice& choice) const {
    return std::count_if(choice.begin(), choice.end(), [&](const AxisValue& chosen) {
      return !occurs_.contains({chosen.axis, chosen.value});
    });
  }

  std::set<std::pair<std::string, std::string>> occurs_;
};

}  // namespace

std::vector<Choice> all_choices(const std::vector<AxisRange>& axes) {
  std::vector<Choice> choices{{}};
  for (const AxisRange& axis : axes) {
    std::vector<Choice> longer;
    for (const Choice& choice : choices) {
      for (const std::string& value : axis.values) {
        longer.push_back(choice);
        longer.back().push_back(chosen_on(axis, value));
      }
    }
    choices = std::move(longer);
  }
  return choices;
}

std::size_t count_choices(const std::vector<AxisRange>& axes) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  std::size_t count = 1;
  for (const AxisRange& axis : axes) {
    if (count > kMost / axis.values.size()) return kMost;
    count *= axis.values.size();
  }
  return count;
}

std::vector<Choice> pairwise_choices(const std::vector<AxisRange>& axes) {
  return pairwise_choices(axes, nullptr).choices;
}

PairwiseChoices pairwise_choices(const std::vector<AxisRange>& axes, const Obstacle& obstacle) {
  if (axes.size() < 2) return {all_choices(axes), 0};
  return Construction(axes, obstacle).run();
}

std::vector<std::vector<Choice>> choices_of_each_value(std::vector<std::vector<Choice>> lists) {
  ValuesInChoices values;
  std::vector<std::vector<Choice>> chosen(lists.size());
  for (std::size_t i = 0; i < lists.size(); ++i) values.take_best(lists[i], 0, chosen[i]);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    while (values.take_best(lists[i], 1, chosen[i])) continue;
  }
  return chosen;
}

}  // namespace lockstep
