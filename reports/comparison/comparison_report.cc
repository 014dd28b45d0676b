#include "reports/comparison/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "reports/base/plain_text.h"
#include "reports/comparison/comparison_words.h"
#include "reports/comparison/tensor_words.h"

namespace lockstep {

namespace {

/// "train.py, 2 ranks".
std::string name_of(const ComparedSide& side) {
  if (side.tensors) return plain(side.title);
  return fmt::format("{}, {}", plain(side.title), counted(side.world_size, "rank"));
}

/// A fault of the job before a fix that the comparison of values does not show.
std::string fault_in_words(const ComparedPair& pair) {
  const ComparedSide& side = pair.sides[1];
  const bool is_shown = pair.result.verdict == Verdict::violated || !side.fault;
  return is_shown ? answer_of(pair).text : plain(side.fault->sentence);
}

/// Why the code itself leaves the fix open; empty: it does not.
std::string code_in_words(const FixedCode& code) {
  if (!code.shared.empty()) {
    return fmt::format(
        "both sides imported {} of one folder, not of their own state: an editable install, or an "
        "absolute path. Use --build 'pip install -e .', which makes an environment per side, or "
        "PYTHONPATH",
        names_in_words(code.shared));
  }
  if (is_unexecuted(code)) {
    return code.changed.empty() ? "no file differs between the two states"
                                : fmt::format("the changed files were never imported: {}",
                                              names_in_words(code.changed));
  }
  if (code.reference_before != SideOutcome::trained) {
    return fmt::format(
        "the reference fails with the code before the fix, too ({}). If that state lacks "
        "something, "
        "use --build or --with; else name a reference without the fault",
        name(code.reference_before));
  }
  if (code.changes_reference) {
    return "the reference itself trains otherwise with the code after the fix than with that "
           "before "
           "it, so it is no measure of either";
  }
  return "";
}

std::string fix_in_words(const Comparison& comparison) {
  const ComparedPair& before = comparison.pairs.front();
  const ComparedPair& after = comparison.pairs.back();
  const FixOutcome outcome = outcome_of_fix(comparison);
  if (comparison.code) {
    const std::string why = code_in_words(*comparison.code);
    const bool decides = outcome == FixOutcome::refused || outcome == FixOutcome::not_shown ||
                         outcome == FixOutcome::not_decided;
    if (decides && !why.empty()) return fmt::format("{}: {}", name(outcome), why);
  }
  switch (outcome) {
    case FixOutcome::fixed:
      return fmt::format("{}: {}", name(outcome), verdict_in_words(after));
    case FixOutcome::not_shown:
      return fmt::format("{} BEFORE THE FIX: {}", name(outcome), verdict_in_words(before));
    case FixOutcome::still_there:
    case FixOutcome::new_fault:
    case FixOutcome::not_decided:
    case FixOutcome::refused:
      break;
  }
  return fmt::format("{}: {}", name(outcome), fault_in_words(after));
}

/// "of 3 changed files, ranks executed 2: src/a.py, src/b.py".
std::string executed_in_words(const FixedCode& code) {
  if (!code.is_seen) return "which of the changed files ranks executed is not known";
  return fmt::format("of {}, ranks executed {}{}{}", counted(code.changed.size(), "changed file"),
                     code.executed.empty() ? "none" : std::to_string(code.executed.size()),
                     code.executed.empty() ? "" : ": ", names_in_words(code.executed));
}

/// That of a fix; of one that was not compared that it is not decided.
std::string name_of_outcome(const Comparison& comparison) {
  return std::string(
      name(is_of_fix(comparison) ? outcome_of_fix(comparison) : FixOutcome::not_decided));
}

std::string repetition_in_words(const ComparedPair& pair) {
  return pair.result.verdict == Verdict::holds
             ? "reproducible: the second run has the same bits"
             : "not reproducible bit for bit: the second run, compared with the first: " +
                   verdict_in_words(pair);
}

std::string with_expectation(const Comparison& comparison) {
  const ComparedPair& pair = comparison.pairs.front();
  if (comparison.expected == ComparisonExpectation::agrees) return verdict_in_words(pair);
  const std::string_view expected = name(comparison.expected);
  switch (status_of(comparison)) {
    case ExitStatus::as_expected:
      return fmt::format("as expected ({}): {}", expected, answer_of(pair).text);
    case ExitStatus::failed:
      return fmt::format("NOT AS EXPECTED ({}): {}", expected, answer_of(pair).text);
    default:
      return verdict_in_words(pair);
  }
}

/// How the reference went.
std::string outcome_of(const ComparedSide& side) {
  return side.fault ? plain(side.fault->sentence) : std::string(name(side.outcome));
}

}  // namespace

std::string title_of(const Comparison& comparison) {
  if (comparison.pairs.empty()) return "comparison";
  const auto& sides = comparison.pairs.back().sides;
  const std::string cell = comparison.cell.empty() ? "" : plain(comparison.cell) + ": ";
  return fmt::format("{}{}, compared with {}", cell, name_of(sides[1]), name_of(sides[0]));
}

std::string heading_of(const Comparison& comparison) {
  if (comparison.pairs.empty()) return "UNDECIDED: " + comparison.failure;
  switch (comparison.purpose) {
    case ComparisonPurpose::fix:
      return fix_in_words(comparison);
    case ComparisonPurpose::repetition:
      return repetition_in_words(comparison.pairs.front());
    case ComparisonPurpose::reference:
      break;
  }
  return with_expectation(comparison);
}

std::vector<SideRow> rows_of(const Comparison& comparison) {
  std::vector<SideRow> rows;
  const bool is_fix = comparison.purpose == ComparisonPurpose::fix;
  for (const ComparedPair& pair : comparison.pairs) {
    const bool is_first = &pair == &comparison.pairs.front();
    if (is_first) {
      rows.push_back(
          {is_fix ? "reference" : "A", side_in_words(pair, 0), outcome_of(pair.sides[0])});
    }
    const bool is_told = !is_fix || !is_first;  // by the heading
    rows.push_back({!is_fix    ? "B"
                    : is_first ? "before"
                               : "after",
                    side_in_words(pair, 1),
                    is_told ? std::string(name(pair.sides[1].outcome)) : fault_in_words(pair)});
  }
  return rows;
}

bool is_matrix_of_fixes(const std::vector<Comparison>& comparisons) {
  return comparisons.size() > 1 && std::ranges::all_of(comparisons, [](const Comparison& one) {
           return one.purpose == ComparisonPurpose::fix;
         });
}

std::vector<FixRow> fix_rows_of(const std::vector<Comparison>& comparisons) {
  std::vector<FixRow> rows;
  for (const Comparison& one : comparisons) {
    FixRow& row = rows.emplace_back(FixRow{plain(one.cell), "-", "-", name_of_outcome(one)});
    if (one.pairs.empty()) {
      row.after = plain(one.failure);
      continue;
    }
    row.before = fault_in_words(one.pairs.front());
    row.after = one.pairs.back().sides[1].outcome == SideOutcome::trained
                    ? answer_of(one.pairs.back()).text
                    : fault_in_words(one.pairs.back());
  }
  return rows;
}

std::string heading_of(const std::vector<Comparison>& comparisons) {
  const auto outcome = outcome_of_fixes(comparisons);
  const std::string decided = outcome ? std::string(name(*outcome)) : "NOT DECIDED";
  std::map<std::string, int> others;
  int count = 0;
  std::string first;  // in words
  for (const Comparison& one : comparisons) {
    const std::string found = name_of_outcome(one);
    if (found != decided) {
      ++others[found];
      continue;
    }
    if (count++ == 0 && decided != name(FixOutcome::fixed)) {
      first = fmt::format(". {}: {}", plain(one.cell), heading_of(one));
    }
  }
  std::string text =
      fmt::format("{} in {} of {}", decided, count, counted(comparisons.size(), "cell"));
  for (const auto& [found, cells] : others) text += fmt::format(", {} in {}", found, cells);
  return text + first;
}

std::vector<std::string> details_of(const Comparison& comparison) {
  std::vector<std::string> details;
  if (comparison.code) details.push_back(executed_in_words(*comparison.code));
  for (const ComparedPair& pair : comparison.pairs) {
    const bool is_named = comparison.pairs.size() > 1;
    const std::string when = &pair == &comparison.pairs.front() ? "before: " : "after: ";
    for (const std::string& line : details_of(pair)) {
      details.push_back((is_named ? when : "") + line);
    }
  }
  return details;
}

std::vector<std::string> lines_of(const Comparison& comparison) {
  std::vector<std::string> lines;
  const bool is_plain = comparison.purpose == ComparisonPurpose::reference &&
                        comparison.expected == ComparisonExpectation::agrees;
  if (comparison.purpose != ComparisonPurpose::repetition) {
    for (const ComparedPair& pair : comparison.pairs) {
      std::vector<std::string> more = lines_of(pair);
      std::move(more.begin(), more.end(), std::back_inserter(lines));
      if (!is_plain) lines.emplace_back("");
    }
  }
  if (comparison.code) lines.push_back(executed_in_words(*comparison.code));
  if (!is_plain || comparison.pairs.empty()) lines.push_back(heading_of(comparison));
  return lines;
}

}  // namespace lockstep
