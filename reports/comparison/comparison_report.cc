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

/// How a side went on its own.
std::string outcome_of(const ComparedSide& side) {
  return side.fault ? plain(side.fault->sentence) : std::string(name(side.outcome));
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
  if (is_unexecuted(code) && !code.executed.empty()) {
    return fmt::format("no rank executed a changed line: {}", names_in_words(code.lines->missing));
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
           "before it, so it is no measure of either";
  }
  if (code.unrepeatable == Unrepeatable::after) {
    return "after the fix, two runs of the same command train otherwise, and two of the reference "
           "alike: a race, or numbers that are drawn without a seed";
  }
  return "";
}

/// Why a fix has its outcome, if nothing says what is right.
std::string why_without_reference(FixOutcome outcome, const ComparedPair& pair) {
  const auto& [before, after] = pair.sides;
  if (outcome == FixOutcome::not_shown) return "both states train alike: " + verdict_in_words(pair);
  if (outcome != FixOutcome::not_decided) return outcome_of(after);
  const std::string seen =
      before.fault ? "the fault is gone" : "the states train otherwise: " + verdict_in_words(pair);
  return fmt::format(
      "{}. Whether the training is right now, a reference tells: --reference 'python train.py', "
      "one process with the whole batch",
      seen);
}

/// Why the code, not the training, gives a fix its outcome; empty: the training does.
std::string why_by_code(const Comparison& comparison) {
  const FixOutcome outcome = outcome_of_fix(comparison);
  const bool may_be = outcome == FixOutcome::refused || outcome == FixOutcome::not_shown ||
                      outcome == FixOutcome::not_decided;
  return may_be && comparison.code ? code_in_words(*comparison.code) : "";
}

/// Why a fix has its outcome.
std::string why_of_fix(const Comparison& comparison) {
  const ComparedPair& before = comparison.pairs.front();
  const ComparedPair& after = comparison.pairs.back();
  const FixOutcome outcome = outcome_of_fix(comparison);
  if (std::string code = why_by_code(comparison); !code.empty()) return code;
  if (has_no_reference(comparison)) return why_without_reference(outcome, after);
  if (outcome == FixOutcome::fixed) return verdict_in_words(after);
  return outcome == FixOutcome::not_shown ? verdict_in_words(before) : fault_in_words(after);
}

std::string fix_in_words(const Comparison& comparison) {
  const bool is_of_before = outcome_of_fix(comparison) == FixOutcome::not_shown &&
                            !has_no_reference(comparison) && why_by_code(comparison).empty();
  return fmt::format("{}{}: {}", name(outcome_of_fix(comparison)),
                     is_of_before ? " BEFORE THE FIX" : "", why_of_fix(comparison));
}

/// "of 3 changed files, ranks executed 2: src/a.py, src/b.py".
std::string executed_in_words(const FixedCode& code) {
  if (!code.is_seen) return "which of the changed files ranks executed is not known";
  return fmt::format("of {}, ranks executed {}{}{}", counted(code.changed.size(), "changed file"),
                     code.executed.empty() ? "none" : std::to_string(code.executed.size()),
                     code.executed.empty() ? "" : ": ", names_in_words(code.executed));
}

/// More about the code of a fix than its heading says.
std::vector<std::string> details_of(const FixedCode& code) {
  std::vector<std::string> details{executed_in_words(code)};
  if (code.lines) {
    const ChangedLines& lines = *code.lines;
    details.push_back(fmt::format(
        "of {} of code in them, ranks executed {}{}{}", counted(lines.count, "changed line"),
        lines.executed, lines.missing.empty() ? "" : ", not ", names_in_words(lines.missing)));
  }
  if (code.unrepeatable == Unrepeatable::before) {
    details.emplace_back(
        "before the fix, two runs of the same command train otherwise, and two of the reference "
        "alike");
  }
  return details;
}

/// How B ended, and after a fix also whether it trained as A.
std::string outcome_in_words(const ComparedPair& pair, bool is_after_fix) {
  std::string words(name(pair.sides[1].outcome));
  if (!is_after_fix || pair.sides[1].outcome != SideOutcome::trained) return words;
  switch (pair.result.verdict) {
    case Verdict::holds:
      return words +
             (has_same_bits(pair) ? ", equal to A bit for bit" : ", equal to A up to rounding");
    case Verdict::violated:
      return words + ", differs from A";
    case Verdict::undecided:
      break;
  }
  return words + ", and whether it trained as A is undecided";
}

/// That of a fix; of one that was not compared that it is not decided.
std::string name_of_outcome(const Comparison& comparison) {
  return std::string(
      name(is_of_fix(comparison) ? outcome_of_fix(comparison) : FixOutcome::not_decided));
}

std::string repetition_in_words(const ComparedPair& pair) {
  return pair.result.verdict == Verdict::holds
             ? "reproducible: the repetition has the same bits"
             : "not reproducible bit for bit: the repetition, compared with the first run: " +
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
  if (has_no_reference(comparison)) {
    const ComparedPair& pair = comparison.pairs.front();
    return {{"before (A)", side_in_words(pair, 0), outcome_of(pair.sides[0])},
            {"after (B)", side_in_words(pair, 1), std::string(name(pair.sides[1].outcome))}};
  }
  std::vector<SideRow> rows;
  const bool is_fix = comparison.purpose == ComparisonPurpose::fix;
  for (const ComparedPair& pair : comparison.pairs) {
    const bool is_first = &pair == &comparison.pairs.front();
    if (is_first) {
      rows.push_back(
          {is_fix ? "reference (A)" : "A", side_in_words(pair, 0), outcome_of(pair.sides[0])});
    }
    const bool is_told = !is_fix || !is_first;  // by the heading
    rows.push_back({!is_fix    ? "B"
                    : is_first ? "before (B)"
                               : "after (B)",
                    side_in_words(pair, 1),
                    is_told ? outcome_in_words(pair, is_fix) : fault_in_words(pair)});
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
    if (has_no_reference(one)) {
      row.before = outcome_of(one.pairs.front().sides[0]);
      row.after = outcome_of(one.pairs.front().sides[1]);
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
      first = fmt::format(". {}: {}", plain(one.cell),
                          one.pairs.empty() ? one.failure : why_of_fix(one));
    }
  }
  std::string text =
      fmt::format("{} in {} of {}", decided, count, counted(comparisons.size(), "cell"));
  for (const auto& [found, cells] : others) text += fmt::format(", {} in {}", found, cells);
  return text + first;
}

std::vector<std::string> details_of(const Comparison& comparison) {
  std::vector<std::string> details;
  if (comparison.code) details = details_of(*comparison.code);
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
  if (comparison.code) std::ranges::move(details_of(*comparison.code), std::back_inserter(lines));
  if (!is_plain || comparison.pairs.empty()) lines.push_back(heading_of(comparison));
  return lines;
}

}  // namespace lockstep
