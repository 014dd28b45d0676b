#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/evidence/step_fold.h"
#include "harness/judge/evidence/step_reader.h"
#include "harness/judge/evidence/step_view.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// The values of all ranks in one step. `names`: in a job, of the tensors to include; null: a cell,
/// and all tensors that `spec` is about.
Table::Entry measured_entry(const TableSpec& spec, const StepView& step,
                            const std::set<std::string>* names);

/// A step of a job in which ranks agree by their indices. It is read of one rank alone, since the
/// others hold the same bits of the tensors that they share.
class AgreedStep {
 public:
  AgreedStep(const StepReader& evidence, std::int64_t step);

  /// The values of all ranks; none of those that observed nothing. `names`: of the tensors to
  /// include. Ranks have drifted from each other only if there are two.
  Table::Entry measured(const TableSpec& spec, const std::set<std::string>& names) const;

 private:
  int processes_;
  std::vector<int> observing_;    ///< ranks
  std::optional<StepView> view_;  ///< of one rank, next to itself
};

/// One group of a table: the values of one cell's ranks in the steps of the table.
class TableColumn : public StepFold {
 public:
  /// `processes`: of the cell or job. `names`: in a job, of the tensors to include; empty: a cell,
  /// and all tensors that `spec` is about.
  TableColumn(TableSpec spec, int processes, std::set<std::string> names = {});

  bool wants(std::int64_t step) const override;
  void see(const StepView& step) override;
  void see_agreed(std::int64_t number, const AgreedStep& step);

  /// The seen steps in which a rank observed the table's tensors.
  const std::set<std::int64_t>& steps() const { return steps_; }

  /// A step that was not seen gives an entry without measurements.
  Table::Entry at(std::int64_t step) const;

 private:
  TableSpec spec_;
  int processes_;
  std::set<std::string> names_;
  std::set<std::int64_t> steps_;
  std::map<std::int64_t, Table::Entry> entries_;
};

/// A scenario's table. `columns` has one entry per group of `spec`, null for a variant that was not
/// run.
Table table_of(const TableSpec& spec, const std::vector<const TableColumn*>& columns);

}  // namespace lockstep
