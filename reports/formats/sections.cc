#include "reports/formats/sections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "reports/base/names.h"
#include "reports/record/result.h"

namespace lockstep {

namespace {

/// A scenario in one world.
using World = std::pair<std::string, int>;

/// Worlds with a variant that was run with more than one choice of axis values.
std::set<World> matrices_of(const RunRecord& run) {
  std::map<std::pair<World, std::string>, const std::vector<AxisValue>*> first_choices;
  std::set<World> matrices;
  for (const CellRecord& record : run.cells) {
    const Cell& cell = record.cell;
    const World world{cell.scenario, cell.world_size};
    const auto [first, is_new] = first_choices.try_emplace({world, cell.variant}, &cell.axes);
    if (!is_new && *first->second != cell.axes) matrices.insert(world);
  }
  return matrices;
}

class Sections {
 public:
  explicit Sections(const RunRecord& run) : matrices_(matrices_of(run)) {}

  Section& about(const std::string& scenario, int world_size) {
    const World world{scenario, world_size};
    const auto [place, is_new] = places_.try_emplace(world, sections_.size());
    if (is_new) {
      sections_.emplace_back().is_matrix = matrices_.contains(world);
      worlds_.push_back(world);
    }
    return sections_[place->second];
  }

  std::vector<Section> take() {
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      const auto& [scenario, world_size] = worlds_[i];
      sections_[i].title =
          fmt::format("{}, {}", scenario,
                      conditions(world_size, backend_of(sections_[i]), device_of(sections_[i]),
                                 unusual_of(sections_[i])));
    }
    return std::move(sections_);
  }

 private:
  /// A run has all cells of a scenario on the same kind of devices.
  static DeviceKind device_of(const Section& section) {
    return section.cells.empty() ? DeviceKind::cpu : section.cells.front().record->cell.device;
  }

  /// A run has all its cells over the same backend, except references, which need none.
  static Backend backend_of(const Section& section) {
    for (const ShownCell& shown : section.cells) {
      const Cell& cell = shown.record->cell;
      if (cell.role != Role::reference) return cell.backend;
    }
    return Cell().backend;
  }

  /// The choices in the title; empty for a matrix, which shows them line by line.
  static std::vector<AxisValue> unusual_of(const Section& section) {
    std::vector<AxisValue> all;
    for (const ShownCell& shown : section.cells) {
      if (section.is_matrix) break;
      for (const AxisValue& chosen : unusual_choices(shown.record->cell)) {
        if (std::find(all.begin(), all.end(), chosen) == all.end()) all.push_back(chosen);
      }
    }
    return all;
  }

  std::set<World> matrices_;
  std::map<World, std::size_t> places_;
  std::vector<World> worlds_;  ///< one per section
  std::vector<Section> sections_;
};

bool is_repetition_of(const Cell& cell, const Cell& other) {
  if (cell.variant != other.variant || cell.axes != other.axes) return false;
  Cell again = other;
  again.repetition = cell.repetition;
  return cell == again;
}

void add(const CellRecord& record, std::vector<ShownCell>& cells) {
  const bool as_expected = record.verdict == CellVerdict::as_expected;
  const auto is_same = [&](const ShownCell& cell) {
    return is_repetition_of(record.cell, cell.record->cell);
  };
  const auto first = std::find_if(cells.begin(), cells.end(), is_same);
  if (first == cells.end()) {
    cells.push_back({&record, {}, 1, as_expected ? 1 : 0});
    return;
  }
  if (result_of(record) == Result::not_run) return;
  ++first->repetitions;
  if (as_expected) {
    ++first->as_expected;
    first->folded.push_back(&record);
  } else {
    const auto behind = std::find_if(cells.rbegin(), cells.rend(), is_same).base();
    cells.insert(behind, {&record, {}, 1, 0});
  }
}

/// Merges cells that cannot be run for the same reason.
void fold_alike(std::vector<ShownCell>& cells) {
  std::vector<ShownCell> shown;
  for (const ShownCell& cell : cells) {
    const std::string reason = reason_not_run(*cell.record);
    const auto earlier = std::find_if(shown.begin(), shown.end(), [&](const ShownCell& other) {
      return !reason.empty() && reason_not_run(*other.record) == reason;
    });
    if (earlier == shown.end()) {
      shown.push_back(cell);
    } else {
      earlier->alike.push_back(cell.record);
    }
  }
  cells = std::move(shown);
}

std::string margin_text(const ShownCell& cell) {
  const ClaimResult* nearest = nearest_to_tolerance(cell);
  if (!nearest) return "";
  const auto& results = cell.record->results;
  const bool is_partial =
      *nearest->margin == 0 && std::any_of(results.begin(), results.end(), [](const auto& result) {
        return result.claim.predicate == Predicate::equal_reference &&
               result.verdict == Verdict::undecided;
      });
  // An undecided claim was compared only in part.
  return "; " + margin_in_words(*nearest) + (is_partial ? " as far as it was compared" : "");
}

/// The variants in a heading; for a failed one, also the demand on it.
std::string names_of(const ShownCell& shown, Naming naming) {
  const CellRecord& record = *shown.record;
  const Cell& cell = record.cell;
  const bool is_in_full = naming == Naming::in_full;
  std::string text =
      fmt::format("{}{} ({}", is_in_full ? cell.scenario + "/" : "", cell.variant, name(cell.role));
  if (is_failure(result_of(record))) text += fmt::format(", {}", demand_on(record));
  text += ")";
  if (is_in_full) {
    text += ", " + conditions(cell.world_size, cell.backend, cell.device, unusual_choices(cell));
  } else if (naming == Naming::with_axes) {
    for (const AxisValue& chosen : cell.axes) {
      text += fmt::format(", {}={}", chosen.axis, chosen.value);
    }
  }
  if (cell.repetition > 1) text += fmt::format(", repetition {}", cell.repetition);
  for (const CellRecord* alike : shown.alike) {
    text += fmt::format(", {} ({})", alike->cell.variant, name(alike->cell.role));
  }
  return text;
}

}  // namespace

std::vector<Section> sections_of(const RunRecord& run) {
  Sections sections(run);
  for (const CellRecord& record : run.cells) {
    const Cell& cell = record.cell;
    add(record, sections.about(cell.scenario, cell.world_size).cells);
  }
  for (const Table& table : run.tables) {
    sections.about(table.scenario, table.world_size).tables.push_back(&table);
  }
  std::vector<Section> shown = sections.take();
  for (Section& section : shown) {
    if (!section.is_matrix) fold_alike(section.cells);
    section.jobs = run.environment.jobs;
  }
  return shown;
}

std::string heading_of(const ShownCell& shown, Naming naming) {
  const CellRecord& record = *shown.record;
  const Result result = result_of(record);
  const std::string who = names_of(shown, naming);
  std::string text = result == Result::as_expected
                         ? fmt::format("{}: {}", who, name(result))
                         : fmt::format("{}: {}: {}", name(result), who, cause_of(record));
  if (record.expectation.not_triggered && result == Result::as_expected) text += ": not triggered";
  if (!is_failure(result)) text += margin_text(shown);
  if (shown.repetitions > 1) {
    text += fmt::format("; {} of {} repetitions as expected", shown.as_expected, shown.repetitions);
  }
  return text;
}

std::vector<std::string> shown_checks(const CellRecord& cell) {
  std::vector<std::string> shown;
  for (const Check& check : cell.checks) {
    const bool is_unmet =
        check.result == Check::Result::missed || check.result == Check::Result::false_alarm;
    const bool is_trigger =
        cell.expectation.not_triggered && !check.claim && check.result == Check::Result::found;
    if (is_trigger || (is_unmet && !is_explained_by_cause(cell, check)))
      shown.push_back(check_in_words(check));
  }
  return shown;
}

namespace {

bool is_undecided(const Check& check) { return check.result == Check::Result::undecided; }

/// Whether ranks were ended, and that is the cause or the symptom explains it.
bool is_cut_short(const CellRecord& cell) {
  return is_caused_by_an_ending(cell) ||
         (!all_finished(cell.exits) && is_explained_by_symptom(cell));
}

/// The other claims and checks that are undecided because ranks were ended.
std::string consequences(const CellRecord& cell) {
  std::vector<std::string> open;
  bool is_all = true;
  for (const Check& check : cell.checks) {
    if (is_undecided(check)) {
      open.push_back(check.claim ? fmt::format("\"{}\"", sentence(*check.claim)) : check.promise);
    } else if (check.claim && check.claim->kind) {
      is_all = false;
    }
  }
  return is_all ? "Nothing else could be decided."
                : fmt::format("This leaves undecided: {}.", fmt::join(open, ", "));
}

/// The claims that are undecided for one reason, on one line.
std::string undecided_for(const std::string& reason, const CellRecord& cell) {
  std::vector<std::string> claims;
  for (const Check& check : cell.checks) {
    if (is_undecided(check) && check.claim && check.text == reason) {
      claims.push_back(fmt::format("\"{}\"", sentence(*check.claim)));
    }
  }
  const bool is_said = reason.empty() || reason == cause_of(cell);
  return fmt::format("undecided: {}{}", fmt::join(claims, ", "), is_said ? "" : ": " + reason);
}

}  // namespace

std::vector<std::string> shown_undecided(const CellRecord& cell) {
  std::vector<std::string> shown;
  if (std::none_of(cell.checks.begin(), cell.checks.end(), is_undecided)) return shown;
  if (result_of(cell) == Result::not_run) return shown;
  if (is_cut_short(cell)) return {consequences(cell)};
  for (const Check& check : cell.checks) {
    if (!is_undecided(check)) continue;
    const std::string line = check.claim ? undecided_for(check.text, cell) : check_in_words(check);
    if (std::find(shown.begin(), shown.end(), line) == shown.end()) shown.push_back(line);
  }
  return shown;
}

std::string margin_in_words(const ClaimResult& result) {
  const double margin = result.margin.value();
  if (result.claim.predicate == Predicate::at_most_reference) {
    return margin == 0 ? "no more than the reference"
                       : fmt::format("above the reference by {:.2g} %", 10 * margin);
  }
  if (margin == 0) return "equal to the reference bit for bit";
  std::string off = fmt::format(
      "off by at most {} the tolerance",
      margin > 1 ? fmt::format("{:.2g} times", margin) : fmt::format("{:.3g} % of", 100 * margin));
  // A record may lack it.
  if (!result.tolerance) return off;
  const std::string from =
      result.tolerance_from.empty() ? "" : fmt::format(" ({})", result.tolerance_from);
  return fmt::format("{} {:.2g}{}", off, *result.tolerance, from);
}

std::vector<const ClaimResult*> nearest_results(const ShownCell& cell) {
  std::vector<const ClaimResult*> nearest;
  for (const ClaimResult& result : cell.record->results) nearest.push_back(&result);
  for (const CellRecord* record : cell.folded) {
    for (std::size_t i = 0; i < std::min(nearest.size(), record->results.size()); ++i) {
      const ClaimResult& result = record->results[i];
      if (result.margin && *result.margin > nearest[i]->margin.value_or(-1)) nearest[i] = &result;
    }
  }
  return nearest;
}

const ClaimResult* nearest_to_tolerance(const ShownCell& cell) {
  const ClaimResult* nearest = nullptr;
  for (const ClaimResult* result : nearest_results(cell)) {
    if (result->claim.predicate != Predicate::equal_reference) continue;
    if (result->verdict == Verdict::violated) return nullptr;
    if (result->margin && (!nearest || *result->margin > *nearest->margin)) nearest = result;
  }
  return nearest;
}

}  // namespace lockstep
