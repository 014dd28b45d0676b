#pragma once

#include <string>
#include <utility>

#include "reports/comparison/comparison_words.h"
#include "reports/comparison/conclude.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// A gradient of B that is twice that of A, or as like it as `likeness` says.
inline TensorDifference literal_tensor(Likeness likeness) {
  TensorDifference tensor;
  tensor.name = "layer.weight";
  tensor.likeness = likeness;
  tensor.tolerance = 1e-5;
  if (likeness == Likeness::undecided) tensor.relative = 2e-5;
  if (likeness != Likeness::different) return tensor;
  tensor.relative = 0.5;
  tensor.ratio = 2;
  tensor.cosine = 1;
  tensor.multiple = {2, 1e-5, {{CauseOfRatio::summed_over_ranks, 2}}};
  tensor.kind = FindingKind::scaled_by_world_size;
  return tensor;
}

inline ComparedSide literal_side(const std::string& title, int ranks, std::int64_t steps) {
  ComparedSide side;
  side.title = title;
  side.folder = "runs/" + title;
  side.world_size = ranks;
  side.steps = steps;
  return side;
}

inline std::string text_of(const ComparedPair& pair) {
  std::string text;
  for (const std::string& line : lines_of(pair)) text += line + "\n";
  return text;
}

/// The finding about rank 0 that ended so.
inline Finding literal_ending(FindingKind kind, const std::string& sentence) {
  Finding finding;
  finding.claim = ranks_finish();
  finding.kind = kind;
  finding.failure =
      RankFailure{0, sentence, "RuntimeError: twice", "", std::nullopt, "train.py:31"};
  finding.sentence = sentence;
  return finding;
}

inline FindingKind kind_of_ending(SideOutcome outcome) {
  switch (outcome) {
    case SideOutcome::hung:
      return FindingKind::rank_hung;
    case SideOutcome::died:
      return FindingKind::rank_killed;
    case SideOutcome::ranks_differ:
      return FindingKind::weights_differ;
    case SideOutcome::not_finite:
      return FindingKind::became_not_finite;
    default:
      return FindingKind::rank_raised_error;
  }
}

/// Two steps of a job of two ranks next to a reference of one: the first is equal, the second is as
/// `likeness` says. An error or a hang before the first step leaves none.
inline ComparedPair literal_pair(Likeness likeness, SideOutcome outcome = SideOutcome::trained,
                                 const std::string& title = "train.py") {
  const bool has_steps = outcome != SideOutcome::raised && outcome != SideOutcome::hung;
  ComparedPair pair;
  pair.sides = {literal_side("reference.py", 1, 2), literal_side(title, 2, has_steps ? 2 : 0)};
  pair.preconditions = {{Prerequisite::initial_weights, Likeness::equal, "equal"},
                        {Prerequisite::samples, Likeness::equal, "the same in 2 of 2 steps"}};
  if (has_steps) {
    pair.matched = 1;
    pair.steps = {{1, 1, 0, "", {literal_tensor(Likeness::equal)}},
                  {2, 2, 0, "", {literal_tensor(likeness)}}};
  } else {
    pair.unmatched[0] = {"layer.weight"};
  }
  pair.sides[1].outcome = outcome;
  if (outcome != SideOutcome::trained) {
    pair.sides[1].fault =
        literal_ending(kind_of_ending(outcome), "ended so: " + std::string(name(outcome)));
  }
  conclude(pair);
  return pair;
}

inline RunRecord run_with(Comparison comparison) {
  RunRecord run;
  run.command = {"lockstep", "diff", "runs/reference.py", "runs/train.py"};
  run.environment = {"2026-11-20T18:52:46Z", "node-1", "0.1.0", "", "", "lockstep-2", {}, 1};
  run.comparisons.push_back(std::move(comparison));
  run.planned = counts_of(run);
  return run;
}

inline Comparison literal_fix(ComparedPair before, ComparedPair after) {
  Comparison fix;
  fix.purpose = ComparisonPurpose::fix;
  fix.pairs = {std::move(before), std::move(after)};
  return fix;
}

}  // namespace lockstep
