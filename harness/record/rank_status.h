#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// A rank's own status in `rank-N.status.json`, written at the start of each step and at its end.
/// So the last position of a killed rank is known.
struct RankStatus {
  std::int64_t step = 0;  ///< the last step begun; 0: none
  int line = 0;           ///< of the branch point in the scenario's source; 0: unknown
  bool ended = false;     ///< the body returned or raised; false if the process was ended
  bool raised = false;    ///< an error left the body
  bool is_own = false;    ///< Lockstep or the machine caused the error: not evidence
  std::string error;      ///< its text
  ExitCause cause = ExitCause::none;  ///< `lost_peer` if the error says so
  std::optional<double> step_s = {};  ///< median time of a step without observing; a clock field
  std::optional<std::int64_t> rows = {};           ///< of its journal, at its end
  std::optional<std::int64_t> step_began_ns = {};  ///< start of `step`; a clock field
  std::optional<RendezvousState> rendezvous = {};  ///< absent: none
  std::string process = {};  ///< `process_identity` of the writer; empty: unknown
};

/// File of `rank` in a cell's folder.
std::filesystem::path rank_status_file(const std::filesystem::path& folder, int rank);

/// Writes the status and replaces an older one atomically. Throws Error (usage).
void write_rank_status(const std::filesystem::path& file, const RankStatus& status);

/// Reads the status. A missing file gives an empty status, because the rank did not get that far.
/// Throws Error (usage) when it is malformed.
RankStatus read_rank_status(const std::filesystem::path& file);

}  // namespace lockstep
