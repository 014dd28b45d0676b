#include "harness/diff/diff_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "harness/diff/diff_keys.h"
#include "harness/diff/diff_words.h"
#include "harness/diff/tensor_words.h"
#include "reports/base/plain_text.h"
#include "reports/page/finding_pages.h"
#include "reports/page/html_page.h"
#include "reports/page/html_table.h"
#include "reports/page/html_text.h"
#include "reports/record/thinned_steps.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostSteps = 2000;
constexpr std::size_t kMostTensors = 5000;
constexpr std::size_t kWidestText = 100000;
constexpr std::array kMostUnlikeFirst{Likeness::different, Likeness::undecided,
                                      Likeness::no_evidence, Likeness::rounding, Likeness::equal};

Tone tone_of(const DiffRecord& diff) {
  if (is_void(diff) || diff.matched == 0 || may_be_samples(diff) || may_be_precision(diff))
    return Tone::open;
  const Verdict verdict = verdict_of(diff);
  return verdict == Verdict::holds      ? Tone::good
         : verdict == Verdict::violated ? Tone::bad
                                        : Tone::open;
}

/// "no evidence".
std::string likeness_in_words(Likeness likeness) {
  std::string text(name(likeness));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string prefix_of(const NamedDiff& one) { return one.name.empty() ? "" : one.name + ": "; }

/// Steps of all comparisons, thinned by the difference of the weights.
std::vector<std::int64_t> steps_to_chart(const std::vector<NamedDiff>& diffs,
                                         std::size_t& observed) {
  std::map<std::int64_t, double> apart;
  std::map<std::int64_t, std::int64_t> states;
  for (const NamedDiff& one : diffs) {
    for (const StepDifference& step : one.diff->steps) {
      double& furthest = apart[step.step];
      furthest = std::fmax(furthest, step.weights_apart.value_or(0));
      states[step.step] = 4 * states[step.step] + (step.count(Likeness::different) > 0   ? 2
                                                   : step.count(Likeness::undecided) > 0 ? 1
                                                                                         : 0);
    }
  }
  observed = apart.size();
  ThinnedSteps<std::int64_t> thinned(kMostSteps);
  for (const auto& [step, value] : apart) thinned.add(states[step], value, value, value, step);
  return thinned.take();
}

const StepDifference* find_step(const DiffRecord& diff, std::int64_t number) {
  const auto found = std::lower_bound(
      diff.steps.begin(), diff.steps.end(), number,
      [](const StepDifference& step, std::int64_t wanted) { return step.step < wanted; });
  return found == diff.steps.end() || found->step != number ? nullptr : &*found;
}

std::string step_charts(const std::vector<NamedDiff>& diffs) {
  std::size_t observed = 0;
  const std::vector<std::int64_t> steps = steps_to_chart(diffs, observed);
  if (steps.size() < 2) return "";
  std::vector<HtmlColumn> apart{{"Step of A", true}}, counts{{"Step of A", true}};
  for (const NamedDiff& one : diffs) {
    const std::string before = in_html(prefix_of(one));
    apart.push_back({before + "weights apart", true, Plotted::line});
    for (const Likeness likeness : kMostUnlikeFirst) {
      counts.push_back(
          {fmt::format("{}{}", before, likeness_in_words(likeness)), true,
           likeness == Likeness::different || diffs.size() == 1 ? Plotted::line : Plotted::none});
    }
  }
  HtmlTable distances("Distance of the weights before each step, over their norm", apart);
  HtmlTable likeness("Tensors by likeness, step by step", counts);
  for (const std::int64_t number : steps) {
    std::vector<std::string> distance{std::to_string(number)}, count = distance;
    for (const NamedDiff& one : diffs) {
      const StepDifference* const step = find_step(*one.diff, number);
      const bool is_known = step && step->weights_apart;
      distance.push_back(is_known ? number_in_html(*step->weights_apart) : "-");
      for (const Likeness like : kMostUnlikeFirst) {
        count.push_back(step ? std::to_string(step->count(like)) : "-");
      }
    }
    distances.add(distance);
    likeness.add(count);
  }
  std::string text = "<div class=\"charts\">\n" +
                     distances.with_chart(ChartAxis::log, "relative L2 distance") +
                     likeness.with_chart(ChartAxis::linear, "tensors") + "</div>\n";
  if (observed > steps.size()) {
    text += fmt::format(
        "<p class=\"soft\">Of {} compared steps, {} are shown: the first, the last, every change "
        "of likeness, and the extremes of each interval.</p>\n",
        observed, steps.size());
  }
  return text;
}

std::string relative_cell(const TensorDifference& one) {
  if (!one.is_measured()) return "-";
  return (one.is_estimate ? "~" : "") + number_in_html(one.relative);
}

std::string ratio_cell(const TensorDifference& one) {
  return one.ratio ? fmt::format("{:.6g}", *one.ratio) : "-";
}

/// The step to show tensors of: the first that differs, else the last whose tensors are known.
const StepDifference* step_to_show(const DiffRecord& diff) {
  if (const StepDifference* const step = first_different(diff)) return step;
  const auto known = std::find_if(diff.steps.rbegin(), diff.steps.rend(),
                                  [](const StepDifference& one) { return !one.tensors.empty(); });
  return known == diff.steps.rend() ? nullptr : &*known;
}

std::string tensor_table(const DiffRecord& diff) {
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
    if (table.rows() == kMostTensors) {
      ++left_out;
      return;
    }
    table.add({fmt::format("<code>{}</code>", in_html(one.name, 200)), relative_cell(one),
               number_in_html(one.tolerance), ratio_cell(one), likeness_in_words(one.likeness),
               std::string(name(one.quantity)), in_html(one.cause, 200)});
  };
  for (const TensorDifference& one : step->tensors) add(one);
  for (const TensorDifference& one : step->modules.tensors) add(one);
  if (table.rows() == 0) return "";
  return table.with_filter() +
         (left_out == 0 ? "" : fmt::format("<p>{} more tensors are left out.</p>\n", left_out));
}

/// The lines of the comparison in the console, below its verdict.
std::vector<std::string> lines_in_html(const DiffRecord& diff) {
  std::vector<std::string> lines;
  const std::string text = diff_in_words(diff, kWidestText);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(in_html(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

std::string kind_in_html(const DiffRecord& diff) {
  const StepDifference* const step = first_different(diff);
  if (!step || verdict_of(diff) != Verdict::violated) return "";
  const FindingKind kind = kind_of(*step);
  return html_facts({{"First step", std::to_string(step->step)},
                     {"Kind", fmt::format("<b>{0}</b>: {1} <span class=\"soft\">More: "
                                          "<code>lockstep explain {0}</code></span>",
                                          name(kind), in_html(meaning_of(kind)))}});
}

HtmlSection section_of(const NamedDiff& one, std::size_t number) {
  const std::string verdict =
      one.name.empty() ? ""
                       : fmt::format("<p><b>{}</b></p>\n", in_html(verdict_in_words(*one.diff)));
  return {fmt::format("comparison-{}", number), one.name.empty() ? "Comparison" : in_html(one.name),
          verdict + kind_in_html(*one.diff) + html_list(lines_in_html(*one.diff)) +
              tensor_table(*one.diff)};
}

}  // namespace

std::string diff_page(const std::vector<NamedDiff>& diffs, const std::string& sentence) {
  HtmlPage page;
  const DiffRecord& last = *diffs.back().diff;
  page.title = fmt::format("Lockstep diff: {} and {}", last.sides[0].title, last.sides[1].title);
  page.kicker = "Lockstep diff: A is right, the verdict is about B";
  page.verdict = in_html(sentence.empty() ? verdict_in_words(last) : sentence);
  page.tone = tone_of(last);
  page.lead.push_back(fmt::format("Coverage: {} on both sides, {} compared.",
                                  counted(last.matched, "parameter name"),
                                  counted(last.steps.size(), "step")));
  const std::string charts = step_charts(diffs);
  if (!charts.empty()) page.sections.push_back({"steps", "Step by step", charts});
  for (const NamedDiff& one : diffs) {
    page.sections.push_back(section_of(one, page.sections.size() + 1));
  }
  return html_of(page);
}

}  // namespace lockstep
