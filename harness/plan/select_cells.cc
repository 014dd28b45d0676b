#include "harness/plan/select_cells.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "harness/plan/axis_choices.h"
#include "harness/plan/preconditions.h"
#include "harness/plan/wanted.h"
#include "harness/record/group_error.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

/// The possible values on each axis of a variant: the set value, else all values in a matrix, else
/// the default.
std::vector<AxisRange> ranges_of(const Scenario& scenario, const Variant& variant,
                                 const Selection& selection) {
  std::vector<AxisRange> ranges;
  for (const Axis* axis : axes_of(scenario, variant)) {
    ranges.push_back({axis->name, {axis->default_value}, axis->default_value});
    if (selection.matrix) ranges.back().values = axis->values;
    for (const AxisValue& chosen : selection.axes) {
      if (chosen.axis == axis->name) ranges.back().values = {chosen.value};
    }
  }
  return ranges;
}

/// The claims of a cell. A reference only has to run, because the others are compared with it. A
/// single rank does not have to agree with others.
std::vector<Claim> claims_of(const Scenario& scenario, const Cell& cell) {
  if (cell.role == Role::reference) return {ranks_finish()};
  std::vector<Claim> claims = scenario.claims;
  const std::vector<Claim>& more = find_variant(scenario, cell.variant)->claims;
  claims.insert(claims.end(), more.begin(), more.end());
  if (cell.world_size == 1) {
    std::erase_if(claims, [](const Claim& claim) {
      return claim.predicate == Predicate::agree_across_ranks;
    });
  }
  return claims;
}

DeviceKind device_of(const Scenario& scenario, const Selection& selection) {
  if (selection.device) return *selection.device;
  return selection.backend == Backend::nccl ? DeviceKind::cuda : scenario.devices.front();
}

/// Checked calls raise an error in the call, where Gloo would end the process.
void expect_checked(Expectation& expectation) {
  for (ExpectedError& error : expectation.raises) {
    if (error.fragment == group_error::kGlooSizes) error.fragment = group_error::kCallsDiffer;
  }
}

PlannedCell plan(const Scenario& scenario, Cell cell, const Selection& selection) {
  PlannedCell planned;
  planned.scenario = &scenario;
  planned.variant = find_variant(scenario, cell.variant);
  planned.claims = claims_of(scenario, cell);
  planned.expectation = expectation_of(scenario, cell, selection.gpus);
  planned.cell = std::move(cell);
  if (selection.collectives == Collectives::check) expect_checked(planned.expectation);
  return planned;
}

/// Ways to combine the values of a variant's axes, the most cells first.
enum class Combination { all, pairs, values };

/// The cells of one scenario in one world. Each reference occurs once, after the cells compared
/// with it.
class CellsOfWorld {
 public:
  CellsOfWorld(const Wanted& wanted, int world_size, const Selection& selection,
               Combination combination)
      : wanted_(wanted), selection_(selection) {
    blank_.scenario = wanted.scenario->id;
    blank_.world_size = world_size;
    blank_.device = device_of(*wanted.scenario, selection);
    blank_.steps = selection.steps.value_or(wanted.scenario->steps);
    blank_.seed = selection.seed;
    std::vector<const Variant*> variants;
    for (const Variant& variant : wanted.scenario->variants) {
      const bool is_wanted = wanted.variants.contains(variant.name);
      if (is_wanted && (combination == Combination::all || !is_brought_along(variant))) {
        variants.push_back(&variant);
      }
    }
    add_all(variants, combination);
    add_references();
  }

  std::vector<PlannedCell> take() { return std::move(cells_); }

  /// Pairs of values without a runnable cell.
  std::size_t uncovered() const { return uncovered_; }

 private:
  /// Whether a selected variant brings `reference` along, with every pair of its values or every
  /// value: the reference depends on no more axes than the variant.
  bool is_brought_along(const Variant& reference) const {
    return std::any_of(wanted_.variants.begin(), wanted_.variants.end(),
                       [&](const std::string& name) {
                         const Variant* const variant = find_variant(*wanted_.scenario, name);
                         return reference_of(*wanted_.scenario, *variant) == &reference;
                       });
  }

  void add_all(const std::vector<const Variant*>& variants, Combination combination) {
    std::vector<std::vector<Choice>> choices;
    for (const Variant* variant : variants) choices.push_back(choices_of(*variant, combination));
    if (combination == Combination::values) choices = choices_of_each_value(std::move(choices));
    for (std::size_t i = 0; i < variants.size(); ++i) {
      for (Choice& choice : choices[i]) {
        (variants[i]->role == Role::reference ? references_ : cells_)
            .push_back(
                plan(*wanted_.scenario, cell_of(*variants[i], std::move(choice)), selection_));
      }
    }
  }

  std::vector<Choice> choices_of(const Variant& variant, Combination combination) {
    const std::vector<AxisRange> ranges = ranges_of(*wanted_.scenario, variant, selection_);
    if (combination == Combination::all) return all_choices(ranges);
    const Obstacle obstacle = [&](const Choice& choice) {
      return expectation_of(*wanted_.scenario, cell_of(variant, choice), selection_.gpus)
          .not_applicable;
    };
    PairwiseChoices pairs = pairwise_choices(ranges, obstacle);
    if (combination == Combination::pairs) {
      uncovered_ += pairs.uncovered;
      return std::move(pairs.choices);
    }
    const auto cannot_run = [&](const Choice& choice) { return !obstacle(choice).empty(); };
    if (!std::all_of(pairs.choices.begin(), pairs.choices.end(), cannot_run)) {
      std::erase_if(pairs.choices, cannot_run);
    }
    return std::move(pairs.choices);
  }

  Cell cell_of(const Variant& variant, Choice choice) const {
    Cell cell = blank_;
    cell.variant = variant.name;
    cell.role = variant.role;
    cell.axes = std::move(choice);
    cell.sets = settings_of(*wanted_.scenario, variant);
    if (cell.role == Role::reference) return cell;
    cell.backend = selection_.backend;
    cell.collectives = selection_.collectives;
    return cell;
  }

  void add_references() {
    for (const PlannedCell& planned : cells_) {
      if (!planned.expectation.not_applicable.empty()) continue;
      auto reference = reference_cell(*wanted_.scenario, *planned.variant, planned.cell);
      const bool is_new =
          reference && std::none_of(references_.begin(), references_.end(),
                                    [&](const PlannedCell& r) { return r.cell == *reference; });
      if (is_new) references_.push_back(plan(*wanted_.scenario, std::move(*reference), selection_));
    }
    std::move(references_.begin(), references_.end(), std::back_inserter(cells_));
  }

  const Wanted& wanted_;
  const Selection& selection_;
  Cell blank_;
  std::vector<PlannedCell> cells_;
  std::vector<PlannedCell> references_;
  std::size_t uncovered_ = 0;
};

/// The selected variants and their references, each once.
std::set<const Variant*> variants_with_references(const Wanted& wanted) {
  std::set<const Variant*> variants;
  for (const std::string& name : wanted.variants) {
    const Variant* const variant = find_variant(*wanted.scenario, name);
    variants.insert(variant);
    if (const Variant* reference = reference_of(*wanted.scenario, *variant)) {
      variants.insert(reference);
    }
  }
  return variants;
}

/// The number of cells for every combination of axis values, as if all could be run. Counts without
/// creating them.
std::size_t count_all(const Wanted& wanted, const Selection& selection) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  std::size_t count = 0;
  for (const Variant* variant : variants_with_references(wanted)) {
    const std::size_t choices = count_choices(ranges_of(*wanted.scenario, *variant, selection));
    count = choices > kMost - count ? kMost : count + choices;
  }
  return count;
}

/// The selected cells of one scenario in one world.
struct MatrixOfWorld {
  std::vector<PlannedCell> cells;
  Combination combination = Combination::all;
  std::size_t whole = 0;      ///< cells of every combination of axis values
  std::size_t uncovered = 0;  ///< pairs without a runnable cell
};

/// Every combination of axis values if that fits, else every pair of values, else every value in a
/// cell of one variant.
MatrixOfWorld matrix_of(const Wanted& wanted, int world_size, const Selection& selection) {
  const std::size_t whole = count_all(wanted, selection);
  // Cells that cannot be run bring no reference, so up to half of the counted cells may not exist.
  if (whole / 2 <= selection.max_cells) {
    auto cells = CellsOfWorld(wanted, world_size, selection, Combination::all).take();
    const std::size_t count = cells.size();
    if (count <= selection.max_cells) return {std::move(cells), Combination::all, count, 0};
  }
  std::size_t least = 0;
  for (const Combination combination : {Combination::pairs, Combination::values}) {
    CellsOfWorld world(wanted, world_size, selection, combination);
    const std::size_t uncovered = world.uncovered();
    auto cells = world.take();
    least = cells.size();
    if (least <= selection.max_cells) return {std::move(cells), combination, whole, uncovered};
  }
  throw bad_value(
      "--max-cells", std::to_string(selection.max_cells),
      fmt::format(
          "at least {}, the number needed for every axis value of {}, or name fewer variants",
          least, wanted.scenario->id));
}

/// The part of all matrices that a run covers.
struct MatrixPart {
  Combination combination = Combination::all;  ///< the one with the fewest cells
  std::size_t whole = 0;
  std::size_t uncovered = 0;  ///< pairs

  void add(const MatrixOfWorld& matrix) {
    combination = std::max(combination, matrix.combination);
    whole += matrix.whole;
    uncovered += matrix.uncovered;
  }
};

std::string matrix_note(std::size_t cells, const MatrixPart& part) {
  if (cells == part.whole) {
    return fmt::format("matrix: {} cells, every combination of axis values", cells);
  }
  const bool has_pairs = part.combination != Combination::values;
  std::string note = fmt::format("matrix: {} of {} cells, covering every {}", cells, part.whole,
                                 has_pairs ? "pair of axis values" : "axis value");
  if (!has_pairs || part.uncovered == 0) return note;
  return note + fmt::format(", except {} for which no runnable cell was found",
                            counted(part.uncovered, "pair"));
}

/// All cells of one repetition.
Plan plan_all(const std::vector<Wanted>& all, const Selection& selection) {
  Plan plan;
  MatrixPart part;
  for (const Wanted& wanted : all) {
    for (const int world_size : selection.world_sizes) {
      MatrixOfWorld matrix;
      if (selection.matrix) {
        matrix = matrix_of(wanted, world_size, selection);
      } else {
        matrix.cells = CellsOfWorld(wanted, world_size, selection, Combination::all).take();
      }
      part.add(matrix);
      std::move(matrix.cells.begin(), matrix.cells.end(), std::back_inserter(plan.cells));
    }
  }
  if (selection.matrix) plan.notes = {matrix_note(plan.cells.size(), part)};
  return plan;
}

}  // namespace

std::optional<Cell> reference_cell(const Scenario& scenario, const Variant& variant,
                                   const Cell& cell) {
  const Variant* reference = reference_of(scenario, variant);
  if (!reference) return std::nullopt;
  Cell found = cell;
  found.variant = reference->name;
  found.role = reference->role;
  found.backend = Cell().backend;
  found.collectives = Cell().collectives;
  found.sets = settings_of(scenario, *reference);
  found.axes.clear();
  for (const Axis* axis : axes_of(scenario, *reference)) {
    const std::string& value = axis_value(cell, axis->name);
    found.axes.push_back({axis->name, value, value == axis->default_value});
  }
  return found;
}

bool needs_gpus(const std::vector<Scenario>& scenarios, const Selection& selection) {
  const std::vector<Wanted> all = wanted_of(scenarios, selection.names);
  return std::any_of(all.begin(), all.end(), [&](const Wanted& wanted) {
    return device_of(*wanted.scenario, selection) == DeviceKind::cuda &&
           runs_on(*wanted.scenario, DeviceKind::cuda);
  });
}

Plan select_cells(const std::vector<Scenario>& scenarios, const Selection& selection) {
  const std::vector<Wanted> all = wanted_of(scenarios, selection.names);
  check_axes(all, selection.axes);
  Plan plan = plan_all(all, selection);
  const std::size_t cells = plan.cells.size();
  for (int repetition = 2; repetition <= selection.repetitions; ++repetition) {
    for (std::size_t i = 0; i < cells; ++i) {
      plan.cells.push_back(plan.cells[i]);
      plan.cells.back().cell.repetition = repetition;
    }
  }
  return plan;
}

std::string folder_of(const Scenario& scenario, const Cell& cell) {
  return folder_of(cell, scenario.devices.front());
}

}  // namespace lockstep
