#pragma once

#include <cstddef>
#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// The most ranks that a text table shows; the first ones.
inline constexpr std::size_t kMostShownRanks = 4;

/// A row's entry of a group; nothing measured if the row is short.
Table::Entry entry_of(const Table::Row& row, std::size_t group);

/// The most ranks for which a group has a value in any row, at least 1.
std::size_t ranks_of(const Table& table, std::size_t group);

/// Whether any entry has a drift next to its values.
bool has_drift(const Table& table);

/// The step of a row, counted like the published table.
std::string step_text(const Table& table, const Table::Row& row);

/// The value at `i` in the format of the quantity; "-" if not measured.
std::string value_text(const TableSpec& spec, const Table::Entry& entry, std::size_t i);

/// Whether the entry says if all ranks agree: something was measured, and where ranks agree, on all
/// of them.
bool tells_agreement(const TableSpec& spec, const Table::Entry& entry);

/// "True", "False"; "-" if it is unknown.
std::string synced_text(const TableSpec& spec, const Table::Entry& entry);

/// The subject of a table: "weight's gradient", "all gradients".
std::string subject_of(const TableSpec& spec);

/// A line that names the ranks not shown; empty if all are shown.
std::string ranks_footnote(const Table& table);

}  // namespace lockstep
