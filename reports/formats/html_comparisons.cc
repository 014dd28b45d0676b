#include "reports/formats/html_comparisons.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>

#include "reports/base/plain_text.h"
#include "reports/comparison/comparison_report.h"
#include "reports/comparison/comparison_words.h"
#include "reports/comparison/tensor_words.h"
#include "reports/page/finding_pages.h"
#include "reports/page/html_page.h"
#include "reports/page/html_table.h"
#include "reports/page/html_text.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostComparedTensors = 5000;
constexpr std::array kMostUnlikeFirst{Likeness::different, Likeness::undecided,
                                      Likeness::no_evidence, Likeness::rounding, Likeness::equal};

/// A pair, by its name in a comparison.
struct NamedPair {
  std::string name;  ///< "before the fix"; empty: there is only one
  const ComparedPair* pair = nullptr;
};

std::vector<NamedPair> pairs_of(const Comparison& comparison) {
  std::vector<NamedPair> pairs;
  const bool is_fix = comparison.purpose == ComparisonPurpose::fix;
  for (const ComparedPair& pair : comparison.pairs) {
    const bool is_first = &pair == &comparison.pairs.front();
    pairs.push_back({!is_fix ? "" : is_first ? "before the fix" : "after the fix", &pair});
  }
  return pairs;
}

/// "no evidence".
std::string likeness_in_words(Likeness likeness) {
  std::string text(name(likeness));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string prefix_of(const NamedPair& one) { return one.name.empty() ? "" : one.name + ": "; }

/// An undecided step is no healed one, so it has a line of its own.
bool is_plotted(Likeness likeness) {
  return likeness == Likeness::different || likeness == Likeness::undecided;
}

/// Steps of all pairs. A record has no more of them than a chart can show.
std::vector<std::int64_t> steps_to_chart(const std::vector<NamedPair>& diffs) {
  std::set<std::int64_t> steps;
  for (const NamedPair& one : diffs) {
    for (const StepDifference& step : one.pair->steps) steps.insert(step.step);
  }
  return {steps.begin(), steps.end()};
}

/// "Of 10000 compared steps, 2004 are shown: ..."; empty: all are.
std::string left_out_in_words(const std::vector<NamedPair>& diffs) {
  std::string text;
  for (const NamedPair& one : diffs) {
    if (!one.pair->all) continue;
    text += fmt::format(
        "<p class=\"soft\">{}Of {} compared steps, {} are shown: the first, the last, every change "
        "of likeness, and the extremes of each interval.</p>\n",
        in_html(prefix_of(one)), steps_compared(*one.pair), one.pair->steps.size());
  }
  return text;
}

const StepDifference* find_step(const ComparedPair& diff, std::int64_t number) {
  const auto found = std::lower_bound(
      diff.steps.begin(), diff.steps.end(), number,
      [](const StepDifference& step, std::int64_t wanted) { return step.step < wanted; });
  return found == diff.steps.end() || found->step != number ? nullptr : &*found;
}

std::string distance_chart(const std::vector<NamedPair>& diffs,
                           const std::vector<std::int64_t>& steps) {
  std::vector<HtmlColumn> columns{{"Step of A", true}};
  for (const NamedPair& one : diffs) {
    columns.push_back({in_html(prefix_of(one)) + "weights apart", true, Plotted::line});
  }
  HtmlTable table("Distance of the weights before each step, over their norm", columns);
  for (const std::int64_t number : steps) {
    std::vector<std::string> cells{std::to_string(number)};
    for (const NamedPair& one : diffs) {
      const StepDifference* const step = find_step(*one.pair, number);
      const bool is_known = step && step->weights_apart;
      cells.push_back(is_known ? number_in_html(*step->weights_apart) : "-");
    }
    table.add(cells);
  }
  return table.with_chart(ChartAxis::log, "relative L2 distance");
}

std::vector<HtmlColumn> likeness_columns(const std::vector<NamedPair>& diffs) {
  std::vector<HtmlColumn> columns{{"Step of A", true}};
  for (const NamedPair& one : diffs) {
    for (const Likeness likeness : kMostUnlikeFirst) {
      const bool is_line = is_plotted(likeness) || diffs.size() == 1;
      columns.push_back({in_html(prefix_of(one)) + likeness_in_words(likeness), true,
                         is_line ? Plotted::line : Plotted::none});
    }
  }
  return columns;
}

std::string likeness_chart(const std::vector<NamedPair>& diffs,
                           const std::vector<std::int64_t>& steps) {
  HtmlTable table("Tensors by likeness, step by step", likeness_columns(diffs));
  for (const std::int64_t number : steps) {
    std::vector<std::string> cells{std::to_string(number)};
    for (const NamedPair& one : diffs) {
      const StepDifference* const step = find_step(*one.pair, number);
      for (const Likeness likeness : kMostUnlikeFirst) {
        cells.push_back(step ? std::to_string(step->count(likeness)) : "-");
      }
    }
    table.add(cells);
  }
  return table.with_chart(ChartAxis::linear, "tensors");
}

std::string step_charts(const std::vector<NamedPair>& diffs) {
  const std::vector<std::int64_t> steps = steps_to_chart(diffs);
  if (steps.size() < 2) return "";
  return "<div class=\"charts\">\n" + distance_chart(diffs, steps) + likeness_chart(diffs, steps) +
         "</div>\n" + left_out_in_words(diffs);
}

std::string relative_cell(const TensorDifference& one) {
  if (!one.is_measured()) return "-";
  return (one.estimate_error ? "~" : "") + number_in_html(one.relative);
}

std::string ratio_cell(const TensorDifference& one) {
  return one.ratio ? fmt::format("{:.6g}", *one.ratio) : "-";
}

/// The step to show tensors of: the first that differs, else the last whose tensors are known.
const StepDifference* step_to_show(const ComparedPair& diff) {
  if (const StepDifference* const step = first_different(diff)) return step;
  const auto known = std::find_if(diff.steps.rbegin(), diff.steps.rend(),
                                  [](const StepDifference& one) { return !one.tensors.empty(); });
  return known == diff.steps.rend() ? nullptr : &*known;
}

std::string tensor_table(const ComparedPair& diff) {
  const StepDifference* const step = step_to_show(diff);
  if (!step) return "";
  HtmlTable table(is_of_weights(diff) ? "Tensors" : fmt::format("Tensors of step {}", step->step),
                  {{"Tensor"},
                   {"Relative difference", true},
                   {"Tolerance", true},
                   {"Ratio", true},
                   {"Likeness"},
                   {"Quantity"},
                   {"In words"}});
  std::size_t left_out = 0;
  const auto add = [&](const TensorDifference& one) {
    if (table.rows() == kMostComparedTensors) {
      ++left_out;
      return;
    }
    table.add({fmt::format("<code>{}</code>", in_html(one.name, 200)), relative_cell(one),
               number_in_html(one.tolerance), ratio_cell(one), likeness_in_words(one.likeness),
               std::string(name(one.quantity)), in_html(cause_in_words(one), 200)});
  };
  for (const TensorDifference& one : step->tensors) add(one);
  for (const TensorDifference& one : step->modules.tensors) add(one);
  if (table.rows() == 0) return "";
  return table.with_filter() +
         (left_out == 0 ? "" : fmt::format("<p>{} more tensors are left out.</p>\n", left_out));
}

/// The lines of the comparison in the console, below its verdict.
std::vector<std::string> lines_in_html(const ComparedPair& diff) {
  std::vector<std::string> lines;
  for (const std::string& line : lines_of(diff)) {
    if (!line.empty()) lines.push_back(in_html(line));
  }
  return lines;
}

std::string kind_in_html(const ComparedPair& diff) {
  const StepDifference* const step = first_different(diff);
  if (!step || verdict_of(diff) != Verdict::violated) return "";
  const FindingKind kind = kind_of(*step);
  return html_facts({{"First step", std::to_string(step->step)},
                     {"Kind", fmt::format("<b>{0}</b>: {1} <span class=\"soft\">More: "
                                          "<code>lockstep explain {0}</code></span>",
                                          name(kind), in_html(meaning_of(kind)))}});
}

std::string pair_in_html(const NamedPair& one) {
  const std::string title = one.name.empty()
                                ? ""
                                : fmt::format("<h3>{}</h3>\n<p><b>{}</b></p>\n", in_html(one.name),
                                              in_html(verdict_in_words(*one.pair)));
  return title + kind_in_html(*one.pair) + html_list(lines_in_html(*one.pair)) +
         tensor_table(*one.pair);
}

}  // namespace

HtmlSection section_of(const Comparison& comparison, const std::string& anchor,
                       bool has_own_verdict) {
  std::string text =
      has_own_verdict ? "" : fmt::format("<p><b>{}</b></p>\n", in_html(heading_of(comparison)));
  const std::vector<NamedPair> pairs = pairs_of(comparison);
  text += step_charts(pairs);
  for (const NamedPair& one : pairs) text += pair_in_html(one);
  return {anchor, in_html(title_of(comparison), 300), text};
}

}  // namespace lockstep
