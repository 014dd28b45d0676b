#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/names.h"

namespace lockstep {

/// Why a collective of a group is a mismatch.
///   missing       a rank is alive and never called it
///   dead          a rank had ended: by an error, an exit or a signal
///   stopped       a rank's process was stopped
///   not_started   a rank never joined the group, or no rank completed the rendezvous
///   operation, size, dtype, reduction, root
///                 all ranks called it, with different values of this property
///   order         ranks called the same collectives in another order
///   tensors       ranks called it for different tensors, which all of them have
///   count         a rank finished after fewer collectives than the others
///   stuck         all ranks of a job called it, and none left it while none made progress
enum class MismatchFault {
  missing,
  dead,
  stopped,
  not_started,
  operation,
  size,
  dtype,
  reduction,
  root,
  order,
  tensors,
  count,
  stuck
};

template <>
struct Names<MismatchFault> {
  static constexpr std::array<std::string_view, 13> values{
      "missing",   "dead", "stopped", "not started", "operation", "size", "dtype",
      "reduction", "root", "order",   "tensors",     "count",     "stuck"};
};

/// Whether ranks made different calls: the program's fault, even if no rank hung.
bool is_difference_of_calls(MismatchFault fault);

/// One rank's call in one row of the calls shown side by side.
struct CallOfRank {
  std::string text;  ///< "allreduce sum float32 [4, 4], gradient of w"; empty: it never called it
  std::string site;  ///< call site "scenarios/.../file.cc:41"; empty: unknown
  bool is_open = false;  ///< entered and not completed
  double open_s = 0;     ///< how long it was open; a clock field

  bool operator==(const CallOfRank&) const = default;
};

/// One collective of a group, by its number, on all ranks.
struct CollectiveRow {
  std::int64_t number = 0;  ///< of the collective in its group, from 1
  std::int64_t step = 0;    ///< of the lowest rank that called it; -1: unknown, and long before
  std::vector<CallOfRank> calls;  ///< one per rank of the world
  bool differs = false;           ///< ranks made different calls, or some made none

  bool operator==(const CollectiveRow&) const = default;
};

/// The first collective mismatch of a cell.
struct CollectiveMismatch {
  MismatchFault fault = MismatchFault::missing;
  std::string group;                ///< "world"
  std::int64_t number = 0;          ///< of the collective in its group, from 1; 0: the join
  std::int64_t step = 0;            ///< 0: before the first or after the last step
  std::vector<int> culprits;        ///< ranks that never called it or made another call, ascending
  std::vector<int> waiting;         ///< ranks that are in it, ascending
  std::string sentence;             ///< "rank 1 never entered collective 7 of the group world: ..."
  std::vector<CollectiveRow> rows;  ///< the collectives of the group before, at and after this one

  bool operator==(const CollectiveMismatch&) const = default;
};

}  // namespace lockstep
