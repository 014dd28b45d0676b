#pragma once

/// What is said of calls that differ between ranks, in fragments that stay the same.
namespace lockstep::group_error {

/// Gloo, of other sizes or dtypes, before it ends the process.
inline constexpr const char* kGlooSizes = "op.preamble.length <= op.nbytes";
/// Lockstep's own check (`peer_logs`) and its backend over MPI.
inline constexpr const char* kCallsDiffer = "collectives that do not match";

}  // namespace lockstep::group_error
