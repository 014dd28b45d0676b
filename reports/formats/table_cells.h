#pragma once

#include <cstddef>
#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// Ranks whose values a table of text shows; of more it shows the first ones.
inline constexpr std::size_t kMostShownRanks = 4;

/// What a row says of a group; nothing measured where the row is short.
Table::Entry entry_of(const Table::Row& row, std::size_t group);

/// The most ranks for which a group has a value in any row, at least 1.
std::size_t ranks_of(const Table& table, std::size_t group);

/// The step of a row as the published table counts.
std::string step_text(const Table& table, const Table::Row& row);

/// The value at `i` as the quantity is printed; "-" for what was not measured.
std::string value_text(const TableSpec& spec, const Table::Entry& entry, std::size_t i);

/// "True", "False", "-" when nothing was measured.
std::string synced_text(const Table::Entry& entry);

/// What a table is about: "weight's gradient", "all gradients".
std::string subject_of(const TableSpec& spec);

/// A line that says which ranks are not shown; empty when all are.
std::string ranks_footnote(const Table& table);

}  // namespace lockstep
