#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "reports/base/mebibytes.h"
#include "reports/base/plain_text.h"
#include "reports/base/shell_word.h"
#include "reports/comparison/comparison_report.h"
#include "reports/formats/brief_findings.h"
#include "reports/formats/console_table.h"
#include "reports/formats/job_report.h"
#include "reports/formats/matrix.h"
#include "reports/formats/overview.h"
#include "reports/formats/renderer.h"
#include "reports/formats/scenario_table.h"
#include "reports/formats/screen.h"
#include "reports/formats/sections.h"
#include "reports/formats/shown_findings.h"
#include "reports/record/mismatch_table.h"
#include "reports/record/without_secrets.h"

namespace lockstep {

namespace {

/// The most lines of a rank's output, rows of a table, and cells not run for the same reason,
/// unless everything is shown.
constexpr std::size_t kMostLinesOfOutput = 10;
constexpr std::size_t kMostRowsOfATable = 24;
constexpr std::size_t kMostNotes = 6;

/// Writes the parts of a report for one screen.
class Console {
 public:
  Console(const RunRecord& run, const Screen& screen) : run_(run), screen_(screen) {
    std::set<std::string> scenarios;
    for (const CellRecord& record : run.cells) scenarios.insert(record.cell.scenario);
    has_one_scenario_ = scenarios.size() <= 1;
  }

  std::string report() const {
    if (screen_.verbosity == Verbosity::verdict) return verdict();
    std::string text = is_comparison(run_) ? "" : header();
    for (const JobRecord& job : run_.jobs) text += is_full() ? whole_job(job) : job_in_brief(job);
    for (const Comparison& one : run_.comparisons) text += comparison(one) + "\n";
    if (is_matrix_of_fixes(run_.comparisons)) {
      text += wrapped(heading_of(run_.comparisons), 0, 2, screen_.width) + "\n";
    }
    if (is_comparison(run_)) return text + notes() + files();
    const std::vector<Section> sections = sections_of(run_);
    for (const Section& section : sections) {
      if (is_full()) {
        text += whole_section(section);
      } else if (has_one_scenario_ || screen_.verbosity == Verbosity::variants) {
        text += section_in_brief(section);
      }
    }
    // The heading of a single job is its verdict.
    const bool is_said =
        run_.cells.empty() && run_.jobs.size() == 1 && run_.comparisons.empty() && !is_full();
    return text + notes() + table() + attention(sections) + files() + (is_said ? "" : verdict());
  }

  /// An unexpected cell, without its place among others.
  std::string failure(const ShownCell& shown) const {
    return heading(shown, Naming::in_full) + details(shown);
  }

 private:
  bool is_full() const { return screen_.verbosity == Verbosity::full; }

  std::string lines(const std::string& text, std::size_t indent, std::size_t hanging = 0) const {
    return wrapped(text, indent, hanging, screen_.width);
  }

  std::string titled(const std::string& title) const {
    const std::string line = plain(title);
    return line + "\n" + std::string(std::min(line.size(), screen_.width), '=') + "\n\n";
  }

  std::string comparison(const Comparison& one) const {
    std::string text = one.cell.empty() ? "" : titled(one.cell);
    for (const std::string& line : lines_of(one)) {
      const bool is_detail = line.starts_with("  ");
      text += line.empty() ? "\n" : lines(is_detail ? line.substr(2) : line, is_detail ? 2 : 0, 2);
    }
    return text;
  }

  std::string header() const {
    const std::string words = configuration_in_words(run_);
    return words.empty() ? "" : lines(words, 0, 4) + "\n";
  }

  std::string heading(const ShownCell& shown, Naming naming) const {
    const Result result = result_of(*shown.record);
    const std::string text = lines(heading_of(shown, naming), 0, 4);
    return result == Result::as_expected ? text
                                         : painted(text, result, screen_, 0, name(result).size());
  }

  std::string finding_text(const ShownFinding& shown) const {
    const Finding& finding = *shown.finding;
    std::string text = lines(shown.sentence, 2);
    if (!finding.failure || finding.failure->last_output.empty()) return text;
    if (!is_full() && !finding.failure->error.empty()) return text;  // the output repeats it
    return text + fmt::format("    last output of rank {}:\n", finding.failure->rank) +
           prefixed(output(finding.failure->last_output), "    | ");
  }

  std::string output(const std::string& printed) const {
    std::string text = folded(printable(printed), screen_.width - 6);
    if (is_full()) return text;
    std::size_t begin = text.size();
    for (std::size_t i = 0; i <= kMostLinesOfOutput && begin != text.npos && begin > 0; ++i) {
      begin = text.rfind('\n', begin - 1);
    }
    return begin == text.npos || begin == 0 ? text : text.substr(begin + 1);
  }

  std::string mismatch(const Execution& execution) const {
    std::string text;
    if (!execution.mismatch) return text;
    for (const std::string& line : mismatch_lines(*execution.mismatch)) {
      text += folded((text.empty() ? "  " : "    ") + line, screen_.width, 8);
    }
    return text;
  }

  /// The text below the heading of a cell.
  std::string details(const ShownCell& shown) const {
    const CellRecord& cell = *shown.record;
    const std::vector<ShownFinding> findings =
        is_full() ? shown_findings(cell) : brief_findings(cell);
    const bool has_findings = !shown_findings(cell).empty();
    const bool is_conspicuous = is_full() || result_of(cell) != Result::as_expected;
    std::string text;
    for (const std::string& line : shown_checks(cell)) text += lines(line, 2);
    for (const ShownFinding& finding : findings) text += finding_text(finding);
    if (has_findings && is_conspicuous) text += mismatch(cell);
    for (const std::string& line : shown_undecided(cell)) text += lines(line, 2);
    for (const std::string& note : cell.notes) text += lines("note: " + note, 2);
    if (!is_conspicuous || (is_full() && !has_findings)) return text;
    if (!cell.source.empty()) text += fmt::format("  source: {}\n", plain(cell.source));
    if (!cell.reproduce.empty()) text += fmt::format("  again: {}\n", plain(cell.reproduce));
    return text;
  }

  /// A line with its mark in the first column.
  std::string marked(const std::string& text, std::size_t indent, const MatrixLine& line) const {
    std::string result = lines(text, indent, 4);
    if (line.mark == ' ') return result;
    result.front() = line.mark;
    return painted(result, result_of(*line.cell->record), screen_, 0, 1);
  }

  std::string variant_lines(const Section& section, bool with_findings) const {
    std::string text;
    for (const MatrixVariant& variant : matrix_lines(section)) {
      const bool is_one_line = variant.lines.size() == 1;
      if (!is_one_line) text += lines(variant.title + ":", 2, 4);
      for (const MatrixLine& line : variant.lines) {
        text += marked(line_text(variant, line), is_one_line ? 2 : 4, line);
        const bool is_told_below = result_of(*line.cell->record) != Result::as_expected;
        if (with_findings && !is_told_below) text += prefixed(details(*line.cell), "  ");
      }
    }
    return text;
  }

  std::string whole_matrix(const Section& section) const {
    std::string text = variant_lines(section, false);
    const std::string footnote = matrix_footnote(section);
    if (!footnote.empty()) text += "\n" + lines(footnote, 0);
    const auto cells = conspicuous_cells(section);
    if (!cells.empty()) text += "\n";
    for (const ShownCell* cell : cells) text += heading(*cell, Naming::with_axes) + details(*cell);
    return text;
  }

  std::string whole_section(const Section& section) const {
    std::string text = titled(section.title);
    if (section.is_matrix) return text + whole_matrix(section) + "\n";
    text += tables(section);
    for (const ShownCell& cell : section.cells) {
      text += heading(cell, Naming::variant) + details(cell);
    }
    const std::string cost = cost_text(section);
    return text + (cost.empty() ? "" : fmt::format("\n{}:\n{}", kTitleOfCost, cost)) + "\n";
  }

  std::string section_in_brief(const Section& section) const {
    std::string text = titled(section.title);
    if (has_one_scenario_ && !section.is_matrix) text += tables(section);
    return text + variant_lines(section, has_one_scenario_ && !section.is_matrix) + "\n";
  }

  std::string tables(const Section& section) const {
    std::string text;
    for (const Table* table : section.tables) text += shown(*table) + "\n";
    return text;
  }

  std::string shown(const Table& table) const {
    TableLayout layout;
    layout.width = screen_.width;
    layout.has_sparklines = screen_.has_sparklines;
    if (!is_full()) layout.most_rows = kMostRowsOfATable;
    return table_text(table, layout);
  }

  /// They show nothing of a job in lockstep.
  std::string tables(const JobRecord& job) const {
    const bool is_wanted =
        screen_.verbosity >= Verbosity::variants || verdict_of(job) == Verdict::violated;
    std::string text;
    if (!is_wanted) return text;
    for (const Table& table : job.tables) text += "\n" + shown(table);
    return text;
  }

  std::string whole_job(const JobRecord& job) const {
    std::string text =
        titled(title_of(job)) + job_heading(heading_of(job) + comparison_of(job), 0, job);
    for (const std::string& line : lines_of(job)) text += lines(line, 2);
    return text + memory(job) + all_tensors(job) + stacks(job) + mismatch(job) + tables(job) + "\n";
  }

  /// "memory: at most 412 MiB (rank 1), at least 390 MiB (rank 0)".
  std::string memory(const JobRecord& job) const {
    std::string text;
    const std::pair<const char*, const std::optional<PeakMemory>*> all[] = {
        {"memory", &job.host_memory}, {"memory of GPUs", &job.device_memory}};
    for (const auto& [what, known] : all) {
      if (!*known) continue;
      const PeakMemory& one = **known;
      std::string line =
          fmt::format("{}: at most {} (rank {})", what, in_mebibytes(one.most), one.most_of);
      if (one.least_of != one.most_of) {
        line += fmt::format(", at least {} (rank {})", in_mebibytes(one.least), one.least_of);
      }
      text += lines(line, 2);
    }
    return text;
  }

  /// Where ranks raised, aborted or hang. Many may be at the same place.
  std::string stacks(const JobRecord& job) const {
    std::map<std::vector<std::string>, std::vector<int>> ranks;
    for (const RankExit& end : job.exits) {
      if (!end.stack.empty()) ranks[end.stack].push_back(end.rank);
    }
    std::string text;
    for (const auto& [stack, those] : ranks) {
      text += lines(fmt::format("stack of {}, innermost first:", ranks_in_words(those)), 2);
      for (const std::string& frame : stack) text += lines(plain(frame), 4);
    }
    return text;
  }

  /// All tensors that break a claim in its first step.
  std::string all_tensors(const JobRecord& job) const {
    std::string text;
    for (const ClaimResult& result : job.results) {
      for (const Finding& finding : result.findings) {
        if (finding.tensors.size() < 2) continue;
        text +=
            lines(plain(fmt::format("{} that differ in step {}: {}", plural(*finding.claim.kind),
                                    finding.step, fmt::join(finding.tensors, ", "))),
                  2, 4);
      }
    }
    return text;
  }

  /// A job in lockstep on one line.
  std::string job_in_brief(const JobRecord& job) const {
    const std::string title = plain(title_of(job)) + ": ";
    std::string text = job_heading(title + heading_of(job) + comparison_of(job), title.size(), job);
    for (const std::string& line : lines_of(job, brief_findings(job))) text += lines(line, 2);
    return text + mismatch(job) + tables(job) + "\n";
  }

  /// How a recording is used: "; compare: lockstep diff runs/one RUN".
  std::string comparison_of(const JobRecord& job) const {
    if (!is_recording(job) || screen_.folder.empty()) return "";
    return fmt::format("; compare: lockstep diff {} RUN", plain(shell_word(screen_.folder)));
  }

  /// `text`, whose verdict begins at `begin` and ends before the next colon.
  std::string job_heading(const std::string& text, std::size_t begin, const JobRecord& job) const {
    const std::size_t end = text.find(':', begin);
    const std::string shown = lines(text, 0, 4);
    const std::size_t size = std::min(end, text.size()) - begin;
    const bool is_in_place = shown.compare(begin, size, text, begin, size) == 0;
    return is_in_place ? painted(shown, result_of_status(status_of(job)), screen_, begin, size)
                       : shown;
  }

  std::string notes() const {
    std::string text;
    const std::size_t most = is_full() ? run_.notes.size() : kMostNotes;
    for (std::size_t i = 0; i < std::min(most, run_.notes.size()); ++i) {
      text += lines("note: " + run_.notes[i], 0, 4);
    }
    if (run_.notes.size() > most) {
      text += fmt::format("note: and {} more notes; -vv shows them\n", run_.notes.size() - most);
    }
    return text.empty() ? "" : text + "\n";
  }

  std::string table() const {
    const std::string text = has_detections(run_) ? scenario_table(run_, screen_) : "";
    return text.empty() ? "" : text + "\n";
  }

  /// Cells that were not run, a line for each reason.
  std::string not_run(const std::vector<Section>& sections) const {
    std::vector<std::pair<std::string, std::vector<const CellRecord*>>> reasons;
    const auto add = [&](const CellRecord& record) {
      if (result_of(record) != Result::not_run) return;
      const std::string reason = reason_not_run(record);
      const auto known = std::find_if(reasons.begin(), reasons.end(),
                                      [&](const auto& other) { return other.first == reason; });
      if (known == reasons.end()) {
        reasons.push_back({reason, {&record}});
      } else {
        known->second.push_back(&record);
      }
    };
    for (const Section& section : sections) {
      for (const ShownCell& shown : section.cells) {
        add(*shown.record);
        for (const CellRecord* alike : shown.alike) add(*alike);
      }
    }
    std::string text;
    for (std::size_t i = 0; i < std::min(reasons.size(), kMostNotes); ++i) {
      const auto& [reason, records] = reasons[i];
      const Cell& first = records.front()->cell;
      const std::string more =
          records.size() == 1 ? "" : fmt::format(" and {} more", records.size() - 1);
      const std::string line = fmt::format("{}: {}/{}{}: {}", name(Result::not_run), first.scenario,
                                           first.variant, more, reason);
      text += painted(lines(line, 0, 4), Result::not_run, screen_, 0, name(Result::not_run).size());
    }
    if (reasons.size() > kMostNotes) {
      text += fmt::format("{}: for {} more reasons; -vv names them\n", name(Result::not_run),
                          reasons.size() - kMostNotes);
    }
    return text;
  }

  /// The unexpected cells that failed, or the others; only their headings if everything is shown
  /// above.
  std::string unexpected(const std::vector<Section>& sections, bool is_failed) const {
    std::string text;
    for (const Section& section : sections) {
      for (const ShownCell* shown : conspicuous_cells(section)) {
        if (is_failure(result_of(*shown->record)) != is_failed) continue;
        text += is_full() ? heading(*shown, Naming::in_full) : failure(*shown);
      }
    }
    return text;
  }

  /// All unexpected cells, the worst last.
  std::string attention(const std::vector<Section>& sections) const {
    std::string text = is_full() ? "" : not_run(sections);
    text += unexpected(sections, false) + unexpected(sections, true);
    return text.empty() ? "" : text + "\n";
  }

  std::string files() const {
    if (screen_.folder.empty()) return "";
    std::string text = fmt::format("Files: {}{}\n", plain(screen_.folder), size());
    for (const std::string& report : screen_.reports) {
      text += fmt::format("Report: {}\n", plain(report));
    }
    if (is_full() || is_comparison(run_)) return text;
    const bool has_variants = has_one_scenario_ || screen_.verbosity == Verbosity::variants;
    return text + fmt::format("Details: lockstep report {} {}\n", plain(shell_word(screen_.folder)),
                              has_variants ? "-vv" : "-v");
  }

  std::string size() const {
    if (screen_.size.empty()) return "";
    return fmt::format(", {} (`lockstep runs --keep 10` removes old runs)", screen_.size);
  }

  std::string verdict() const {
    const std::string sentence = verdict_sentence(run_);
    std::string text = lines(sentence, 0);
    if (!has_detections(run_)) return text;
    return painted(text, result_of_status(exit_status(run_)), screen_, 0, sentence.find(':'));
  }

  static Result result_of_status(ExitStatus status) {
    if (status == ExitStatus::as_expected) return Result::as_expected;
    return status == ExitStatus::failed ? Result::failed : Result::undecided;
  }

  const RunRecord& run_;
  const Screen& screen_;
  bool has_one_scenario_ = false;
};

constexpr std::string_view kGreen = "\033[32m";
constexpr std::string_view kRed = "\033[31m";
constexpr std::string_view kYellow = "\033[33m";
constexpr std::string_view kPlain = "\033[0m";

}  // namespace

std::string painted(const std::string& text, Result result, const Screen& screen, std::size_t begin,
                    std::size_t size) {
  if (!screen.has_colour || begin >= text.size()) return text;
  const std::string_view colour = result == Result::as_expected ? kGreen
                                  : is_failure(result)          ? kRed
                                                                : kYellow;
  const std::string part = text.substr(begin, size);
  return fmt::format("{}{}{}{}{}", text.substr(0, begin), colour, part, kPlain,
                     text.substr(begin + part.size()));
}

std::string render_screen(const RunRecord& given, const Screen& screen) {
  const RunRecord run = without_secrets(given);
  return Console(run, screen).report();
}

std::string failure_text(const CellRecord& cell, const Screen& screen) {
  const RunRecord alone;
  return Console(alone, screen).failure({.record = &cell});
}

std::string render_console(const RunRecord& run) { return render_screen(run, Screen()); }

}  // namespace lockstep
