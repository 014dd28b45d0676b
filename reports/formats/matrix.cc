#include "reports/formats/matrix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "reports/base/names.h"
#include "reports/record/result.h"

namespace lockstep {

namespace {

bool is_conspicuous(const CellRecord& cell) {
  return is_failure(result_of(cell)) || result_of(cell) == Result::undecided;
}

char mark_of(const CellRecord& cell) {
  if (!is_conspicuous(cell)) return ' ';
  return result_of(cell) == Result::undecided ? '?' : '!';
}

using Cells = std::vector<const ShownCell*>;

std::vector<Cells> by_variant(const Section& section) {
  std::vector<Cells> variants;
  for (const ShownCell& shown : section.cells) {
    const auto home = std::find_if(variants.begin(), variants.end(), [&](const Cells& cells) {
      return cells.front()->record->cell.variant == shown.record->cell.variant;
    });
    if (home == variants.end()) {
      variants.push_back({&shown});
    } else {
      home->push_back(&shown);
    }
  }
  return variants;
}

std::string choice_in_words(const AxisValue& chosen) {
  return fmt::format("{}={}", chosen.axis, chosen.value);
}

/// The non-default choices that all cells of a variant share.
std::vector<AxisValue> shared_choices(const Cells& cells) {
  std::vector<AxisValue> shared = unusual_choices(cells.front()->record->cell);
  for (const ShownCell* shown : cells) {
    const std::vector<AxisValue>& axes = shown->record->cell.axes;
    std::erase_if(shared, [&](const AxisValue& chosen) {
      return std::find(axes.begin(), axes.end(), chosen) == axes.end();
    });
  }
  return shared;
}

/// The default values of the axes of a section, as far as any cell has them.
std::vector<std::string> default_values(const Section& section) {
  std::vector<std::string> values;
  for (const ShownCell& shown : section.cells) {
    for (const AxisValue& chosen : shown.record->cell.axes) {
      const std::string words = choice_in_words(chosen);
      const bool is_listed = std::find(values.begin(), values.end(), words) != values.end();
      if (!is_listed && chosen.is_default) values.push_back(words);
    }
  }
  return values;
}

/// `shared`: choices that appear in no title above.
std::string title_of(const Cells& cells, const std::vector<AxisValue>& shared) {
  const Cell& cell = cells.front()->record->cell;
  std::vector<std::string> words{fmt::format("{} ({})", cell.variant, name(cell.role))};
  for (const AxisValue& chosen : shared) words.push_back(choice_in_words(chosen));
  if (cells.size() > 1) words.push_back(fmt::format("{} cells", cells.size()));
  for (const CellRecord* alike : cells.front()->alike) {
    words.push_back(fmt::format("{} ({})", alike->cell.variant, name(alike->cell.role)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

/// How close correct values came to the reference; empty if no cell was compared with it.
std::string nearness(const ShownCell& shown) {
  const ClaimResult* const nearest = nearest_to_tolerance(shown);
  if (!nearest || shown.record->symptom.kind != SymptomKind::right) return "";
  if (*nearest->margin == 0) return ", bit for bit";
  return fmt::format(", within {:.2g} % of the tolerance", 100 * *nearest->margin);
}

std::string symptom_text(const ShownCell& shown) {
  const CellRecord& record = *shown.record;
  const Result result = result_of(record);
  std::string text = record.symptom.text + nearness(shown);
  if (record.expectation.not_triggered) text = "not triggered, as declared";
  if (result != Result::as_expected) text = fmt::format("{}: {}", name(result), cause_of(record));
  if (text.empty()) text = name(result);
  if (shown.repetitions > 1) {
    text += fmt::format("; {} of {} repetitions as expected", shown.as_expected, shown.repetitions);
  }
  return text;
}

MatrixLine line_of(const ShownCell& shown, const std::vector<AxisValue>& shared, bool is_matrix) {
  const Cell& cell = shown.record->cell;
  std::vector<std::string> words;
  for (const AxisValue& chosen : unusual_choices(shown.record->cell)) {
    if (std::find(shared.begin(), shared.end(), chosen) == shared.end()) {
      words.push_back(choice_in_words(chosen));
    }
  }
  if (words.empty() && is_matrix) words.emplace_back("default values");
  if (cell.repetition > 1 || words.empty())
    words.push_back(fmt::format("repetition {}", cell.repetition));
  return {&shown, mark_of(*shown.record), fmt::format("{}", fmt::join(words, ", ")),
          symptom_text(shown)};
}

bool is_right_reference(const ShownCell* shown) {
  return shown->record->cell.role == Role::reference && shown->repetitions == 1 &&
         shown->record->verdict == CellVerdict::as_expected &&
         shown->record->symptom.kind == SymptomKind::right;
}

}  // namespace

std::vector<MatrixVariant> matrix_lines(const Section& section) {
  std::vector<MatrixVariant> variants;
  for (const Cells& cells : by_variant(section)) {
    MatrixVariant& variant = variants.emplace_back();
    const std::vector<AxisValue> shared = shared_choices(cells);
    variant.title = title_of(cells, section.is_matrix ? shared : std::vector<AxisValue>());
    if (std::all_of(cells.begin(), cells.end(), is_right_reference)) {
      variant.lines = {{cells.front(), ' ', "", symptom_text(*cells.front())}};
      continue;
    }
    for (const ShownCell* shown : cells)
      variant.lines.push_back(line_of(*shown, shared, section.is_matrix));
  }
  return variants;
}

std::string line_text(const MatrixVariant& variant, const MatrixLine& line) {
  const std::string& before = variant.lines.size() == 1 ? variant.title : line.choice;
  return before.empty() ? line.text : fmt::format("{}: {}", before, line.text);
}

std::vector<const ShownCell*> conspicuous_cells(const Section& section) {
  Cells cells;
  for (const ShownCell& shown : section.cells) {
    if (is_conspicuous(*shown.record)) cells.push_back(&shown);
  }
  return cells;
}

std::string matrix_footnote(const Section& section) {
  std::string text;
  const Cells cells = conspicuous_cells(section);
  const auto has = [&](char mark) {
    return std::any_of(cells.begin(), cells.end(),
                       [&](const ShownCell* shown) { return mark_of(*shown->record) == mark; });
  };
  if (has('!')) text += "!: not as expected. ";
  if (has('?')) text += "?: could not be decided. ";
  if (const auto values = default_values(section); !values.empty()) {
    text += fmt::format("Defaults, left out above: {}. ", fmt::join(values, ", "));
  }
  const bool has_cost = std::any_of(section.cells.begin(), section.cells.end(),
                                    [](const ShownCell& shown) { return shown.record->cost; });
  if (has_cost || !section.tables.empty()) {
    text += "The csv and json reports have the costs and tables of each choice.";
  }
  return text;
}

}  // namespace lockstep
