#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Collectives that the user's code called at a line, in one step.
struct CallsAtPlace {
  std::string operation;  ///< "allreduce"
  std::string place;      ///< "train.py:67"; empty: unknown, and those of all places are here
  std::int64_t calls = 0;
  bool is_of_gradients = false;  ///< their shapes are those of the gradients, one call for each

  bool operator==(const CallsAtPlace&) const = default;
};

/// Collectives of all ranks that some of them called in one of the last steps, and what they
/// lacked.
struct LastCalls {
  std::vector<int> ranks;  ///< ascending
  std::int64_t step = 0;
  std::vector<std::string> without_gradient;  ///< parameters, ascending
  std::vector<CallsAtPlace> calls;            ///< in the order of the first ones

  bool operator==(const LastCalls&) const = default;
};

/// How the calls of the ranks of a job differ: "rank 0 called 5 all-reduces at train.py:67, one for
/// each of its gradients, rank 1 only 4: it has no gradient of extra.weight". Empty: they do not,
/// or not of all ranks is enough known.
std::string calls_apart_in_words(const std::vector<LastCalls>& calls, int world_size);

}  // namespace lockstep
