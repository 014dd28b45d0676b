#pragma once

#include <cstdint>

namespace lockstep {

// The most bytes that a reader takes of each kind of file. Whoever has more has no run of Lockstep,
// or one that is to be cut into smaller ones: a larger file is refused before it is read.

inline constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

inline constexpr std::uint64_t kLargestRecord = 1024 * kMebibyte;         ///< record.json
inline constexpr std::uint64_t kLargestJournal = 2048 * kMebibyte;        ///< rank-N.csv
inline constexpr std::uint64_t kLargestIndex = 1024 * kMebibyte;          ///< rank-N.index
inline constexpr std::uint64_t kLargestTensorTable = 1024 * kMebibyte;    ///< rank-N.tensors.csv
inline constexpr std::uint64_t kLargestManifest = 1024 * kMebibyte;       ///< manifest.csv
inline constexpr std::uint64_t kLargestSnapshot = 4096 * kMebibyte;       ///< *.safetensors
inline constexpr std::uint64_t kLargestSnapshotHeader = 100 * kMebibyte;  ///< of a safetensors file
inline constexpr std::uint64_t kLargestCollectiveLog = 4096 * kMebibyte;  ///< collectives-N.bin
/// rank-N.status.json, rank-N.exit.json, world.json, rank-N.mismatch.txt
inline constexpr std::uint64_t kLargestStatus = 64 * kMebibyte;
inline constexpr std::uint64_t kLargestPublishedTable = 256 * kMebibyte;
/// Of a rank, sent to another machine as it is: its log, too.
inline constexpr std::uint64_t kLargestFile = 4096 * kMebibyte;
/// A program with scenarios and all that a debugger wants to know of it.
inline constexpr std::uint64_t kLargestProgram = 4096 * kMebibyte;

}  // namespace lockstep
