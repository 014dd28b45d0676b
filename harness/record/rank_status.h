#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// What a rank says of itself in `rank-N.status.json`, when it begins a step and at its end: a rank
/// that was killed has said where it was.
struct RankStatus {
  std::int64_t step = 0;  ///< the step begun last; 0: none
  int line = 0;           ///< of the scenario's source, where its variant parts; 0: not known
  bool ended = false;     ///< the body returned or raised; false when it was ended
  bool raised = false;    ///< an error left the body
  bool is_own = false;    ///< the error is Lockstep's own or the machine's: it is no evidence
  std::string error;      ///< its text
  ExitCause cause = ExitCause::none;  ///< `lost_peer` where the error says so
  std::optional<double> step_s = {};  ///< median time of a step without observing; a clock field
  std::optional<std::int64_t> rows = {};           ///< of its journal, when it had ended
  std::optional<std::int64_t> step_began_ns = {};  ///< when `step` was begun; a clock field
  std::optional<RendezvousState> rendezvous = {};  ///< absent: an older status, or none
  std::string process = {};  ///< `process_identity` of who wrote it; empty: not known
};

/// File of `rank` in a cell's folder.
std::filesystem::path rank_status_file(const std::filesystem::path& folder, int rank);

/// Writes the status, replacing an older one as a whole. Throws Error (usage).
void write_rank_status(const std::filesystem::path& file, const RankStatus& status);

/// Reads it. A missing file is an empty status: the rank did not get that far. Throws Error
/// (usage) when it is malformed.
RankStatus read_rank_status(const std::filesystem::path& file);

}  // namespace lockstep
