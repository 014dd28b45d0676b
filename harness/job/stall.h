#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/stall.h"
#include "harness/record/watched_progress.h"
#include "reports/record/execution.h"

namespace lockstep {

/// Asks the operating system and the answers of the ranks, `rank-N.stall.json`, where each rank is.
/// `request`: the number of the answers. Writes `stall.json`. `is_node`: ranks that are not here
/// run on other machines. Throws Error (usage).
Stall record_stall(const std::filesystem::path& folder, std::uint32_t request, double limit_s,
                   bool is_node);

/// A line of stacks that Python's faulthandler wrote: 'File "train.py", line 65 in main'.
struct StackFrame {
  std::string_view file;
  std::string_view line;
  std::string_view function;
};

/// The frames in such a text, of which they are views. Takes time linear in it.
std::vector<StackFrame> frames_in(std::string_view stacks);

/// What Python's faulthandler wrote of a rank last, as far as it is about its main thread.
struct RankStack {
  bool has_aborted = false;  ///< its process ended by a fatal signal of its own, such as SIGABRT
  std::string place;         ///< the user's innermost line: "main, train.py:65"; empty: unknown
  std::vector<std::string> frames;  ///< innermost first: "load_batch, train.py:53"; empty: none
};

RankStack read_stack(const std::filesystem::path& folder, int rank);

/// The function of torch.distributed that such a stack is in: "all_gather"; empty: in none.
std::string collective_in(const std::vector<std::string>& stack);

/// Whether the process of a rank lives, stopped or not.
bool is_alive(const WatchedProgress& rank);

/// Whether its process lives and has not said that it ends.
bool trains_on(const WatchedProgress& rank);
bool is_stopped(const WatchedProgress& rank);

/// Says of each rank of a stall where it was. `hangs`: a rank of the job is in a collective that it
/// has not left. Then the exits of ranks that did not finish are replaced.
void add_stall(const Stall& stall, bool hangs, std::vector<RankExit>& exits);

}  // namespace lockstep
