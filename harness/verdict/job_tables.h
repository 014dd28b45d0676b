#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/step_fold.h"
#include "harness/verdict/table.h"

namespace lockstep {

/// The parameters of which all ranks hold copies that are compared.
std::set<std::string> names_of_copies(const CellEvidence& job);

/// The tables of a watched job: gradient norms per rank, and the drift of the parameters. They are
/// about the parameters that all ranks hold copies of.
class JobTables {
 public:
  explicit JobTables(const CellEvidence& job);

  /// Valid as long as this. Empty if there is nothing to show.
  StepFolds columns();

  std::vector<Table> tables() const;

 private:
  int processes_;
  std::vector<TableSpec> specs_;
  std::vector<TableColumn> columns_;
};

}  // namespace lockstep
