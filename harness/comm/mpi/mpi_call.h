#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace lockstep {

/// The part of a call that must be equal on all ranks. Ranks exchange it before every collective,
/// because MPI crashes, hangs or mixes up values if they differ.
struct MpiCall {
  c10d::OpType operation = c10d::OpType::UNKNOWN;
  std::optional<at::ScalarType> dtype;  ///< absent: no tensor, as in a barrier
  std::int64_t elements = 0;  ///< of this rank's tensor, or of one block if there are many
  std::optional<int> root;    ///< of a rooted collective; the peer, for point-to-point
  std::optional<c10d::ReduceOp::RedOpType> reduction;
  /// For an all-to-all, in which `elements` may differ between ranks: how many go to and come from
  /// each.
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> received;

  bool operator==(const MpiCall&) const = default;
};

/// The encoding of a call sent to peers: at most `most_words` numbers.
std::vector<std::int64_t> to_words(const MpiCall& call);
std::size_t most_words(int world_size);

/// Requires: `words` came from `to_words`.
MpiCall from_words(const std::vector<std::int64_t>& words);

/// "allreduce (sum) of float32, 4 elements", "broadcast from rank 1 of int64, 1 element".
std::string call_in_words(const MpiCall& call);

/// Describes how the calls of all ranks differ: the ranks and their calls, in rank order. Empty:
/// they match.
std::string mismatch_of(const std::vector<MpiCall>& calls);

/// "rank 1", "ranks 0 and 2"
std::string ranks_in_a_sentence(const std::vector<int>& ranks);

}  // namespace lockstep
