#include "harness/validate/setting_law.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "harness/compare/ratio_meaning.h"
#include "reports/base/plain_text.h"
#include "reports/record/ratio.h"

namespace lockstep {

namespace {

constexpr std::size_t kFewestValues = 3;
constexpr double kLeastError = 2e-3;
constexpr double kMostError = 0.02;  ///< of a factor that is known well enough
constexpr double kApart = 0.05;      ///< between factors of which a law is worth a sentence

/// `times * s^power + plus`, or `times / (s + within)`.
struct Law {
  Ratio times;
  double power = 1;
  double plus = 0;
  double within = 0;

  double at(double s) const { return times.factor * std::pow(s + within, power) + plus; }
};

/// "shards", "shards^2", "sqrt(shards)", "(shards + 1)".
std::string power_in_words(const std::string& setting, const Law& law) {
  const double power = std::abs(law.power);
  if (law.within != 0) return fmt::format("({} {} 1)", setting, law.within > 0 ? '+' : '-');
  if (power == 0.5) return fmt::format("sqrt({})", setting);
  return power == 1 ? setting : fmt::format("{}^{:.0f}", setting, power);
}

std::string formula_of(const std::string& setting, const Law& law) {
  const std::string times = factor_in_words(law.times);
  const std::string base = power_in_words(setting, law);
  std::string text;
  if (law.power < 0) {
    const bool is_fraction = law.times.factor < 1;  // 1/2: "1/(2*shards)"
    text = is_fraction ? fmt::format("1/({}*{})", times.substr(times.find('/') + 1), base)
                       : fmt::format("{}/{}", times, base);
  } else if (law.times.factor == 1) {
    text = base;
  } else {
    text = fmt::format("{}*{}", times, base);
  }
  if (law.plus != 0) {
    text += fmt::format(" {} {}", law.plus > 0 ? '+' : '-',
                        factor_in_words({.factor = std::abs(law.plus)}));
  }
  return text;
}

/// The simplest first.
std::vector<Law> laws() {
  constexpr std::array kTimes{1.0, 2.0, 0.5, 3.0, 1.0 / 3, 4.0, 0.25};
  std::vector<Law> all;
  for (const double power : {1.0, -1.0, 2.0, -2.0, 0.5, -0.5}) {
    for (const double times : kTimes) all.push_back({{.factor = times}, power});
  }
  for (const double plus : {1.0, -1.0, 0.5, -0.5}) {
    for (const double power : {1.0, -1.0}) {
      for (const double times : {1.0, 2.0, 0.5}) all.push_back({{.factor = times}, power, plus});
    }
  }
  for (const double within : {1.0, -1.0}) {
    for (const double times : {1.0, 2.0}) all.push_back({{.factor = times}, -1, 0, within});
  }
  return all;
}

bool fits(const Law& law, const std::map<double, MeasuredFactor>& by_value) {
  return std::ranges::all_of(by_value, [&](const auto& one) {
    const double found = one.second.factor;
    const double error = std::max(3 * one.second.error, kLeastError);
    return std::abs(law.at(one.first) - found) <= error * std::abs(found);
  });
}

/// Factors of gradients in the first step that differs, by name. A gradient that is not there is
/// the right one.
struct FactorsOfSide {
  std::map<std::string, MeasuredFactor> factors;
  std::set<std::string> unknown;  ///< that are no multiples
};

/// Empty: nothing is known.
std::optional<FactorsOfSide> factors_of(const ComparedPair& pair) {
  if (pair.steps.empty() || is_void(pair)) return std::nullopt;
  FactorsOfSide found;
  const StepDifference* const step = first_different(pair);
  if (!step) return first_undecided(pair) ? std::nullopt : std::optional(found);
  for (const TensorDifference& one : step->tensors) {
    const bool is_apart = one.quantity == Compared::gradient && one.likeness == Likeness::different;
    if (!is_apart) continue;
    const bool is_multiple =
        one.ratio && one.cosine && *one.cosine > 0 && one.rest && *one.rest <= kMostError;
    if (is_multiple) {
      found.factors[one.name] = {*one.ratio, *one.rest};
    } else {
      found.unknown.insert(one.name);
    }
  }
  return found;
}

std::optional<double> number_in(const std::string& text) {
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = failure == std::errc() && end == text.data() + text.size();
  return is_number && number > 0 ? std::optional(number) : std::nullopt;
}

/// Factors of one side of a matrix in which one setting alone changes, by its value.
using FactorsByValue = std::map<double, FactorsOfSide>;

/// Factors of a gradient, by value; empty: that of one value is unknown.
std::map<double, MeasuredFactor> factors_of(const std::string& name, const FactorsByValue& sides) {
  std::map<double, MeasuredFactor> by_value;
  for (const auto& [value, side] : sides) {
    if (side.unknown.contains(name)) return {};
    const auto own = side.factors.find(name);
    by_value[value] = own == side.factors.end() ? MeasuredFactor{} : own->second;
  }
  return by_value;
}

/// "1: 2, 2: 1, 4: 1/2".
std::string factors_in_words(const std::map<double, MeasuredFactor>& by_value) {
  std::string text;
  for (const auto& [value, one] : by_value) {
    const double simple = simple_factor(one.factor, std::max(one.error, kLeastError));
    text += fmt::format("{}{:g}: {}", text.empty() ? "" : ", ", value,
                        factor_in_words({.factor = simple}));
  }
  return text;
}

/// Of the law that most gradients follow; empty: none follows one.
std::string law_in_words(const std::string& setting, const FactorsByValue& sides) {
  std::set<std::string> names;
  for (const auto& [value, side] : sides) {
    for (const auto& [name, factor] : side.factors) names.insert(name);
  }
  std::map<std::string, std::set<std::string>> by_law;
  for (const std::string& name : names) {
    const std::string law = law_of(setting, factors_of(name, sides));
    if (!law.empty()) by_law[law].insert(name);
  }
  if (by_law.empty()) return "";
  const auto& [law, own] =
      *std::ranges::max_element(by_law, {}, [](const auto& one) { return one.second.size(); });
  return fmt::format("gradients of {} are {} times the right ones ({})",
                     listed({own.begin(), own.end()}, 2), law,
                     factors_in_words(factors_of(*own.begin(), sides)));
}

/// A cell without one of its settings.
CommandCell without(const CommandCell& cell, const std::string& setting) {
  CommandCell others;
  for (const auto& one : cell) {
    if (one.first != setting) others.push_back(one);
  }
  return others;
}

/// "before", "after"; empty: there is one side alone.
std::string side_in_words(const Comparison& comparison, std::size_t side) {
  if (comparison.pairs.size() < 2) return "";
  return side == 0 ? "before: " : "after: ";
}

/// Cells of a matrix that differ in one setting alone, and a side of their comparisons.
struct Line {
  std::string setting, side;
  CommandCell others;
  auto operator<=>(const Line&) const = default;
};

void add_factors(const CommandCell& cell, const Comparison& comparison,
                 std::map<Line, FactorsByValue>& lines) {
  for (std::size_t side = 0; side < comparison.pairs.size(); ++side) {
    const auto factors = factors_of(comparison.pairs[side]);
    if (!factors) continue;
    for (const auto& [setting, text] : cell) {
      const auto value = number_in(text);
      if (!value) continue;
      const Line line{setting, side_in_words(comparison, side), without(cell, setting)};
      lines[line].emplace(*value, *factors);
    }
  }
}

}  // namespace

std::string law_of(const std::string& setting, const std::map<double, MeasuredFactor>& by_value) {
  if (by_value.size() < kFewestValues) return "";
  const auto [least, most] =
      std::ranges::minmax_element(by_value, {}, [](const auto& one) { return one.second.factor; });
  if (most->second.factor - least->second.factor < kApart * std::abs(most->second.factor)) {
    return "";
  }
  for (const Law& law : laws()) {
    if (fits(law, by_value)) return formula_of(setting, law);
  }
  return "";
}

std::vector<std::string> laws_in_words(const std::vector<CommandCell>& cells,
                                       const std::vector<Comparison>& comparisons) {
  std::map<Line, FactorsByValue> lines;
  for (std::size_t i = 0; i < std::min(cells.size(), comparisons.size()); ++i) {
    add_factors(cells[i], comparisons[i], lines);
  }
  std::vector<std::string> sentences;
  for (const auto& [line, sides] : lines) {
    const std::string law = law_in_words(line.setting, sides);
    if (law.empty()) continue;
    const std::string where = line.others.empty() ? "" : in_words(line.others) + ": ";
    sentences.push_back(fmt::format("{}{}{}", line.side, where, law));
  }
  return sentences;
}

}  // namespace lockstep
