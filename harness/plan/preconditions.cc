#include "harness/plan/preconditions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/plan/select_cells.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

/// An axis value of the cell that its scenario lacks; empty if it has them all.
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

/// Why this machine has too few GPUs for a cell; empty if it has enough.
std::string missing_gpus(const Scenario& scenario, const Cell& cell,
                         const std::optional<GpusHere>& gpus) {
  if (cell.device != DeviceKind::cuda) return {};
  if (!gpus) throw internal_error("a cell on cuda, but GPUs were not counted");
  if (!gpus->why_none.empty()) return "there is no GPU: " + gpus->why_none;
  const bool needs_one = cell.role == Role::reference || !scenario.device_needs;
  const DeviceNeeds needs = needs_one ? DeviceNeeds() : scenario.device_needs(cell);
  const bool is_paired_with_cpu = needs.cpu_stands_in && needs.count == 2 && gpus->count == 1 &&
                                  cell.backend != Backend::nccl;  // which takes no tensor of it
  if (cell.backend == Backend::nccl && cell.world_size > gpus->count && !gpus->are_shared) {
    return fmt::format("nccl needs a GPU for each of {} ranks, but there {} {}", cell.world_size,
                       gpus->count == 1 ? "is" : "are", gpus->count);
  }
  if (needs.count <= gpus->count || is_paired_with_cpu) return {};
  return fmt::format("needs {} GPUs, but there {} {}", needs.count, gpus->count == 1 ? "is" : "are",
                     gpus->count);
}

/// Why a cell cannot be run, regardless of its expectation; empty if it can.
std::string violated_precondition(const Scenario& scenario, const Cell& cell,
                                  const std::optional<GpusHere>& gpus) {
  const auto& worlds = scenario.worlds;
  if (std::find(worlds.begin(), worlds.end(), cell.world_size) == worlds.end()) {
    return fmt::format("supports world sizes {}, not {}", worlds_in_words(scenario),
                       cell.world_size);
  }
  if (cell.backend == Backend::nccl && cell.device != DeviceKind::cuda) {
    return fmt::format("nccl connects GPUs, but this cell trains on {}", name(cell.device));
  }
  if (cell.backend == Backend::mpi && cell.device == DeviceKind::cuda) {
    return "mpi takes tensors of the CPU, but this cell trains on cuda";
  }
  const bool places_itself = !runs_on(scenario, DeviceKind::cpu);
  if (cell.backend == Backend::nccl && cell.world_size > 1 && places_itself) {
    return "its ranks share GPUs, and nccl needs one of its own for each";
  }
  if (!runs_on(scenario, cell.device)) {
    return fmt::format("runs on {}, not on {}", fmt::join(names_of(scenario.devices), " or "),
                       name(cell.device));
  }
  const std::string missing = missing_value(scenario, cell);
  return missing.empty() ? missing_gpus(scenario, cell, gpus) : missing;
}

}  // namespace

bool runs_on(const Scenario& scenario, DeviceKind device) {
  return std::find(scenario.devices.begin(), scenario.devices.end(), device) !=
         scenario.devices.end();
}

Expectation expectation_of(const Scenario& scenario, const Cell& cell,
                           const std::optional<GpusHere>& gpus) {
  Expectation expectation;
  expectation.not_applicable = violated_precondition(scenario, cell, gpus);
  if (!expectation.not_applicable.empty()) return expectation;
  Expectation declared = declared_expectation(scenario, cell);
  const auto is_mismatch = [](const Claim& claim) {
    return claim.predicate == Predicate::collectives_match;
  };
  if (cell.backend == Backend::nccl && std::ranges::any_of(declared.breaks, is_mismatch)) {
    declared.not_applicable = "nobody has seen what nccl does with calls that do not match";
  }
  if (!declared.not_applicable.empty()) return declared;
  const auto reference = reference_cell(scenario, *find_variant(scenario, cell.variant), cell);
  if (!reference) return declared;
  const std::string why = expectation_of(scenario, *reference, gpus).not_applicable;
  if (!why.empty()) declared.not_applicable = "its reference cannot run: " + why;
  return declared;
}

}  // namespace lockstep
