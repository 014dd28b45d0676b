#include "harness/verdict/non_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/record/shard_runs.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

bool is_same_tensor(const Observation& a, const Observation& b) {
  return a.kind == b.kind && a.phase == b.phase && a.name == b.name &&
         a.micro_batch == b.micro_batch;
}

/// The first row of a rank that is not finite; null: none.
const Observation* first_in(std::span<const Observation> rows) {
  for (const Observation& row : rows) {
    if (row.statistics.non_finite > 0) return &row;
  }
  return nullptr;
}

/// The earliest such row of all ranks, by its place in the order of execution.
const Observation* first_in(const StepView& step, int& rank_of_first) {
  const Observation* first = nullptr;
  std::ptrdiff_t place_of_first = 0;
  for (int rank = 0; rank < step.processes(); ++rank) {
    const auto rows = step.observations(rank);
    const Observation* const found = first_in(rows);
    if (!found || (first && found - rows.data() >= place_of_first)) continue;
    first = found;
    place_of_first = found - rows.data();
    rank_of_first = rank;
  }
  return first;
}

/// "module output".
std::string words_of(Kind kind) {
  std::string text(name(kind));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

/// Where others hold the same tensor: whether a reduction may have spread it.
std::string origin_in_words(const Observation& first, const std::vector<int>& others,
                            int processes) {
  if (!others.empty()) return "; finite on " + ranks_in_words(others);
  return first.kind == Kind::gradient && processes > 1
             ? "; on all ranks alike, as a reduction leaves what one rank computed"
             : "";
}

}  // namespace

std::string first_non_finite_in_words(const StepReader& evidence) {
  const auto number = evidence.first_non_finite_step();
  if (!number) return "";
  const auto step = evidence.at(*number);
  int rank = 0;
  const Observation* const first = first_in(*step, rank);
  if (!first) return "";
  std::vector<int> same;
  std::vector<int> finite;
  for (int other = 0; other < step->processes(); ++other) {
    for (const Observation& row : step->observations(other)) {
      if (!is_same_tensor(row, *first)) continue;
      (row.statistics.non_finite > 0 ? same : finite).push_back(other);
    }
  }
  return fmt::format("not finite, first in step {}: the {} of {} on {} ({} of {} elements){}",
                     *number, words_of(first->kind), first->name, ranks_in_words(same),
                     first->statistics.non_finite, element_count(first->local_shape),
                     origin_in_words(*first, finite, step->processes()));
}

}  // namespace lockstep
