#pragma once

#include <cstdint>

namespace lockstep {

// Size limits of readers for each kind of file. A larger file is rejected before it is read: it is
// no run of Lockstep, or one to be split into smaller ones.

inline constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

inline constexpr std::uint64_t kLargestRecord = 1024 * kMebibyte;         ///< record.json
inline constexpr std::uint64_t kLargestJournal = 2048 * kMebibyte;        ///< rank-N.csv
inline constexpr std::uint64_t kLargestIndex = 1024 * kMebibyte;          ///< rank-N.index
inline constexpr std::uint64_t kLargestTensorTable = 1024 * kMebibyte;    ///< rank-N.tensors.csv
inline constexpr std::uint64_t kLargestManifest = 1024 * kMebibyte;       ///< manifest.csv
inline constexpr std::uint64_t kLargestSnapshot = 4096 * kMebibyte;       ///< *.safetensors
inline constexpr std::uint64_t kLargestSketches = 4096 * kMebibyte;       ///< rank-N.sketches
inline constexpr std::uint64_t kLargestSnapshotHeader = 100 * kMebibyte;  ///< of a safetensors file
inline constexpr std::uint64_t kLargestCollectiveLog = 4096 * kMebibyte;  ///< collectives-N.bin
/// A safetensors or .distcp file, of which one block at a time is read.
inline constexpr std::uint64_t kLargestCheckpointFile = (1024 * kMebibyte) * 1024;
inline constexpr std::uint64_t kLargestCheckpointMetadata = 256 * kMebibyte;  ///< .metadata
/// rank-N.status.json, rank-N.exit.json, world.json, rank-N.mismatch.txt
inline constexpr std::uint64_t kLargestStatus = 64 * kMebibyte;
inline constexpr std::uint64_t kLargestPublishedTable = 256 * kMebibyte;
/// Of a rank, when it is sent to another machine unchanged; includes its log.
inline constexpr std::uint64_t kLargestFile = 4096 * kMebibyte;
/// A catalogue program with all its debug information.
inline constexpr std::uint64_t kLargestProgram = 4096 * kMebibyte;

}  // namespace lockstep
