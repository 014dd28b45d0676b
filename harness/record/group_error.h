#pragma once

/// Stable fragments of the error messages about calls that differ between ranks.
namespace lockstep::group_error {

/// Gloo's check of sizes and dtypes, printed before it aborts the process.
inline constexpr const char* kGlooSizes = "op.preamble.length <= op.nbytes";
/// Lockstep's own check (`peer_logs`) and its MPI backend.
inline constexpr const char* kCallsDiffer = "collectives that do not match";

}  // namespace lockstep::group_error
