#include "harness/cli/select_cells.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>  // program_invocation_short_name
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "harness/cli/axis_choices.h"
#include "harness/comm/group_error.h"
#include "harness/comm/modules.h"
#include "harness/launch/launcher_command.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

std::vector<std::string> ids_of(const std::vector<Scenario>& scenarios) {
  std::vector<std::string> ids;
  for (const Scenario& scenario : scenarios) ids.push_back(scenario.id);
  return ids;
}

/// A scenario with the variants of it that were asked for.
struct Wanted {
  const Scenario* scenario = nullptr;
  std::set<std::string> variants;
};

void want_all(const Scenario& scenario, Wanted& wanted) {
  for (const Variant& variant : scenario.variants) wanted.variants.insert(variant.name);
}

void want_one(const Scenario& scenario, const std::string& name, Wanted& wanted) {
  if (!find_variant(scenario, name)) {
    std::vector<std::string> names;
    for (const Variant& variant : scenario.variants) names.push_back(variant.name);
    throw unknown_name("variant of " + scenario.id, name, names);
  }
  wanted.variants.insert(name);
}

std::vector<Wanted> wanted_of(const std::vector<Scenario>& scenarios,
                              const std::vector<std::string>& names) {
  std::vector<Wanted> all;
  for (const Scenario& scenario : scenarios) {
    all.push_back({&scenario, {}});
    if (names.empty()) want_all(scenario, all.back());
  }
  for (const std::string& name : names) {
    const auto slash = name.find('/');
    const Scenario& scenario = find_scenario(scenarios, slash == 0 ? name : name.substr(0, slash));
    Wanted& wanted = all[static_cast<std::size_t>(&scenario - scenarios.data())];
    if (slash == std::string::npos) {
      want_all(scenario, wanted);
    } else {
      want_one(scenario, name.substr(slash + 1), wanted);
    }
  }
  std::erase_if(all, [](const Wanted& wanted) { return wanted.variants.empty(); });
  return all;
}

/// The axes that a variant that was asked for depends on.
std::vector<const Axis*> axes_of(const Wanted& wanted) {
  std::vector<const Axis*> axes;
  for (const Axis& axis : wanted.scenario->axes) {
    const bool is_used =
        std::any_of(wanted.variants.begin(), wanted.variants.end(), [&](const std::string& name) {
          const auto of_variant = axes_of(*wanted.scenario, *find_variant(*wanted.scenario, name));
          return std::find(of_variant.begin(), of_variant.end(), &axis) != of_variant.end();
        });
    if (is_used) axes.push_back(&axis);
  }
  return axes;
}

/// Every `--set` must mean something to a variant that was asked for.
void check_axes(const std::vector<Wanted>& all, const std::vector<AxisValue>& set) {
  for (const AxisValue& chosen : set) {
    std::vector<std::string> axes;
    std::vector<std::string> values;
    for (const Wanted& wanted : all) {
      for (const Axis* axis : axes_of(wanted)) {
        axes.push_back(axis->name);
        if (axis->name != chosen.axis) continue;
        values.insert(values.end(), axis->values.begin(), axis->values.end());
      }
    }
    if (values.empty()) throw unknown_name("axis", chosen.axis, axes);
    if (std::find(values.begin(), values.end(), chosen.value) == values.end()) {
      throw unknown_name("value of axis " + chosen.axis, chosen.value, values);
    }
  }
}

/// What each axis of a variant may be: what was set, else every value in a matrix, else the
/// standard one.
std::vector<AxisRange> ranges_of(const Scenario& scenario, const Variant& variant,
                                 const Selection& selection) {
  std::vector<AxisRange> ranges;
  for (const Axis* axis : axes_of(scenario, variant)) {
    ranges.push_back({axis->name, {axis->standard}, axis->standard});
    if (selection.matrix) ranges.back().values = axis->values;
    for (const AxisValue& chosen : selection.axes) {
      if (chosen.axis == axis->name) ranges.back().values = {chosen.value};
    }
  }
  return ranges;
}

/// What is claimed of a cell: of the reference only that it runs, for it is what the others are
/// compared with; of a rank that is alone not that it agrees with others.
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

bool runs_on(const Scenario& scenario, const std::string& device) {
  return std::find(scenario.devices.begin(), scenario.devices.end(), device) !=
         scenario.devices.end();
}

std::string device_of(const Scenario& scenario, const Selection& selection) {
  if (selection.device) return *selection.device;
  return selection.backend == "nccl" ? "cuda" : scenario.devices.front();
}

/// Which of the cell's axis values its scenario does not have; empty when it has them all.
std::string missing_value(const Scenario& scenario, const Cell& cell) {
  for (const Axis& axis : scenario.axes) {
    for (const AxisValue& chosen : cell.axes) {
      const bool has_value =
          std::find(axis.values.begin(), axis.values.end(), chosen.value) != axis.values.end();
      if (chosen.axis == axis.name && !has_value) {
        return fmt::format("axis {} has no value {}", chosen.axis, chosen.value);
      }
    }
  }
  return {};
}

/// Why the GPUs of this machine are too few for a cell; empty when they are not.
std::string missing_gpus(const Scenario& scenario, const Cell& cell,
                         const std::optional<Capability>& gpus) {
  if (cell.device != "cuda") return {};
  if (!gpus) throw internal_error("a cell on cuda, and nobody looked for GPUs");
  if (!gpus->is_there) {
    return fmt::format("no GPU is there: {}. What helps: {}", gpus->text, gpus->remedy);
  }
  const DeviceNeeds needs = scenario.device_needs ? scenario.device_needs(cell) : DeviceNeeds();
  const bool is_paired_with_cpu = needs.cpu_stands_in && needs.count == 2 && gpus->count == 1;
  if (cell.backend == "nccl" && cell.world_size > gpus->count && !are_gpus_shared()) {
    return fmt::format("nccl needs a GPU for each of {} ranks, there {} {}", cell.world_size,
                       gpus->count == 1 ? "is" : "are", gpus->count);
  }
  if (needs.count <= gpus->count || is_paired_with_cpu) return {};
  return fmt::format("needs {} GPUs, there {} {}", needs.count, gpus->count == 1 ? "is" : "are",
                     gpus->count);
}

/// Why a cell cannot be run, whatever its scenario expects of it; empty when it can.
std::string violated_precondition(const Scenario& scenario, const Cell& cell,
                                  const Selection& selection) {
  const auto& worlds = scenario.worlds;
  if (std::find(worlds.begin(), worlds.end(), cell.world_size) == worlds.end()) {
    return fmt::format("supports world sizes {}, not {}", worlds_in_words(scenario),
                       cell.world_size);
  }
  if (cell.backend == "nccl" && cell.device != "cuda") {
    return fmt::format("nccl connects GPUs, and this cell trains on {}", cell.device);
  }
  if (!runs_on(scenario, cell.device)) {
    return fmt::format("runs on {}, not on {}", fmt::join(scenario.devices, " or "), cell.device);
  }
  const std::string missing = missing_value(scenario, cell);
  return missing.empty() ? missing_gpus(scenario, cell, selection.gpus) : missing;
}

Expectation expectation_of(const Scenario& scenario, const Cell& cell, const Selection& selection) {
  Expectation expectation;
  expectation.not_applicable = violated_precondition(scenario, cell, selection);
  return expectation.not_applicable.empty() ? scenario.expect(cell) : expectation;
}

/// What would be Gloo's end of a process is an error of the call where calls are checked.
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
  planned.expectation = expectation_of(scenario, cell, selection);
  planned.cell = std::move(cell);
  planned.collectives = selection.collectives;
  if (planned.collectives == Collectives::check) expect_checked(planned.expectation);
  return planned;
}

/// How the values of a variant's axes are combined.
enum class Combination { all, pairs };

/// The cells of one scenario in one world, each reference once, behind what is compared with it.
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
    for (const Variant& variant : wanted.scenario->variants) {
      if (wanted.variants.contains(variant.name)) add_all(variant, combination);
    }
    add_references();
  }

  std::vector<PlannedCell> take() { return std::move(cells_); }

  /// Pairs of values of which no cell was found that can be run.
  std::size_t uncovered() const { return uncovered_; }

 private:
  /// Whether a variant that was asked for brings `reference` along, with every pair of its values:
  /// it depends on no more axes than the variant.
  bool is_brought_along(const Variant& reference) const {
    return std::any_of(wanted_.variants.begin(), wanted_.variants.end(),
                       [&](const std::string& name) {
                         const Variant* const variant = find_variant(*wanted_.scenario, name);
                         return reference_of(*wanted_.scenario, *variant) == &reference;
                       });
  }

  void add_all(const Variant& variant, Combination combination) {
    if (combination == Combination::pairs && is_brought_along(variant)) return;
    for (Choice& choice : choices_of(variant, combination)) {
      (variant.role == Role::reference ? references_ : cells_)
          .push_back(plan(*wanted_.scenario, cell_of(variant, std::move(choice)), selection_));
    }
  }

  std::vector<Choice> choices_of(const Variant& variant, Combination combination) {
    const std::vector<AxisRange> ranges = ranges_of(*wanted_.scenario, variant, selection_);
    if (combination == Combination::all) return all_choices(ranges);
    PairwiseChoices pairs = pairwise_choices(ranges, [&](const Choice& choice) {
      return expectation_of(*wanted_.scenario, cell_of(variant, choice), selection_).not_applicable;
    });
    uncovered_ += pairs.uncovered;
    return std::move(pairs.choices);
  }

  Cell cell_of(const Variant& variant, Choice choice) const {
    Cell cell = blank_;
    cell.variant = variant.name;
    cell.role = variant.role;
    cell.axes = std::move(choice);
    if (cell.role != Role::reference) cell.backend = selection_.backend;
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

/// The variants that were asked for and their references, each once.
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

/// How many cells every combination of axis values takes, as if all of them could be run. Counts
/// them without making them.
std::size_t count_all(const Wanted& wanted, const Selection& selection) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  std::size_t count = 0;
  for (const Variant* variant : variants_with_references(wanted)) {
    const std::size_t choices = count_choices(ranges_of(*wanted.scenario, *variant, selection));
    count = choices > kMost - count ? kMost : count + choices;
  }
  return count;
}

/// The cells of one scenario in one world, out of all that there are.
struct MatrixOfWorld {
  std::vector<PlannedCell> cells;
  std::size_t whole = 0;      ///< cells of every combination of axis values
  std::size_t uncovered = 0;  ///< pairs of values of which no cell was found that can be run
};

/// Every combination of axis values where that fits, else every pair of values.
MatrixOfWorld matrix_of(const Wanted& wanted, int world_size, const Selection& selection) {
  const std::size_t whole = count_all(wanted, selection);
  // What cannot be run brings no reference: up to half of what was counted may not be there.
  if (whole / 2 <= selection.max_cells) {
    auto cells = CellsOfWorld(wanted, world_size, selection, Combination::all).take();
    const std::size_t count = cells.size();
    if (count <= selection.max_cells) return {std::move(cells), count, 0};
  }
  CellsOfWorld world(wanted, world_size, selection, Combination::pairs);
  const std::size_t uncovered = world.uncovered();
  auto cells = world.take();
  if (cells.size() > selection.max_cells) {
    throw bad_value("--max-cells", std::to_string(selection.max_cells),
                    fmt::format("at least {}, which every pair of axis values of {} takes, or name "
                                "fewer variants",
                                cells.size(), wanted.scenario->id));
  }
  return {std::move(cells), whole, uncovered};
}

std::string matrix_note(std::size_t cells, std::size_t whole, std::size_t uncovered) {
  if (cells == whole) {
    return fmt::format("matrix: {} cells, every combination of axis values", cells);
  }
  std::string note = fmt::format(
      "matrix: {} of {} cells, so that every pair of values of two axes occurs", cells, whole);
  if (uncovered == 0) return note;
  return note + fmt::format(", but for {} pair{} of which no cell was found that can be run",
                            uncovered, uncovered == 1 ? "" : "s");
}

/// All cells of one repetition.
Plan plan_all(const std::vector<Wanted>& all, const Selection& selection) {
  Plan plan;
  std::size_t whole = 0;
  std::size_t uncovered = 0;
  for (const Wanted& wanted : all) {
    for (const int world_size : selection.world_sizes) {
      MatrixOfWorld matrix;
      if (selection.matrix) {
        matrix = matrix_of(wanted, world_size, selection);
      } else {
        matrix.cells = CellsOfWorld(wanted, world_size, selection, Combination::all).take();
      }
      whole += matrix.whole;
      uncovered += matrix.uncovered;
      std::move(matrix.cells.begin(), matrix.cells.end(), std::back_inserter(plan.cells));
    }
  }
  if (selection.matrix) plan.notes = {matrix_note(plan.cells.size(), whole, uncovered)};
  return plan;
}

}  // namespace

const Scenario& find_scenario(const std::vector<Scenario>& scenarios, const std::string& id) {
  for (const Scenario& scenario : scenarios) {
    if (scenario.id == id) return scenario;
  }
  throw unknown_name("scenario", id, ids_of(scenarios));
}

std::optional<Cell> reference_cell(const Scenario& scenario, const Variant& variant,
                                   const Cell& cell) {
  const Variant* reference = reference_of(scenario, variant);
  if (!reference) return std::nullopt;
  Cell found = cell;
  found.variant = reference->name;
  found.role = reference->role;
  found.backend = Cell().backend;
  found.axes.clear();
  for (const Axis* axis : axes_of(scenario, *reference)) {
    const std::string& value = axis_value(cell, axis->name);
    found.axes.push_back({axis->name, value, value == axis->standard});
  }
  return found;
}

bool needs_gpus(const std::vector<Scenario>& scenarios, const Selection& selection) {
  const std::vector<Wanted> all = wanted_of(scenarios, selection.names);
  return std::any_of(all.begin(), all.end(), [&](const Wanted& wanted) {
    return device_of(*wanted.scenario, selection) == "cuda" && runs_on(*wanted.scenario, "cuda");
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

std::vector<std::string> arguments_of(const PlannedCell& planned) {
  const Cell& cell = planned.cell;
  std::vector<std::string> words{"run", cell.scenario + "/" + cell.variant, "--ranks",
                                 std::to_string(cell.world_size)};
  const auto add = [&](const char* option, const std::string& value) {
    words.insert(words.end(), {option, value});
  };
  if (cell.steps != planned.scenario->steps) add("--steps", std::to_string(cell.steps));
  if (cell.seed != 0) add("--seed", std::to_string(cell.seed));
  if (cell.backend != Cell().backend) add("--backend", cell.backend);
  if (cell.device != planned.scenario->devices.front()) add("--device", cell.device);
  if (planned.collectives != Collectives::log) {
    add("--collectives", std::string(name(planned.collectives)));
  }
  for (const AxisValue& chosen : unusual_choices(cell)) {
    add("--set", chosen.axis + "=" + chosen.value);
  }
  return words;
}

std::string reproducing_command(const PlannedCell& planned, const std::string& launcher) {
  std::string command = program_invocation_short_name;
  for (const std::string& word : arguments_of(planned)) command += " " + word;
  return launcher.empty() ? command : command + " --launcher " + quoted(launcher);
}

}  // namespace lockstep
