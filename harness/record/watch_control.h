#pragma once

#include <cstdint>
#include <filesystem>

#include "harness/record/own_file.h"

namespace lockstep {

/// What the parent asks of the ranks of a running job: one page, `watch.control` in the job's
/// folder. Each question reads it, which takes a call of the system, so ranks ask in every step.
/// Whoever truncates it or writes something else ends no process: the last page that was sound
/// counts. One thread.
class WatchControl {
 public:
  /// Opens the page of the job in `folder`. Without one nothing is ever asked. Throws Error (usage)
  /// if it is another file.
  explicit WatchControl(const std::filesystem::path& folder);

  /// Creates the page, with nothing asked, unless there is one. Throws Error (usage).
  static void create(const std::filesystem::path& folder);

  /// Whether values are to be stored as snapshots, since ranks differ.
  bool keeps() const;
  void ask_to_keep();

  /// Whether a step is to be observed. Without a page every step is.
  bool observes(std::int64_t step) const;
  /// From `step` on, steps are observed or not; before it the opposite.
  void switch_from(std::int64_t step, bool is_on);

  /// How many segments of each rank's journal count as thinned in `step`.
  std::int64_t thinned_segments(std::int64_t step) const;
  /// From `step` on so many count. All ranks must have reached the step of the last call.
  void count_thinned_segments(std::int64_t step, std::int64_t count);

  /// Asks every rank where it is, as `rank-N.stall.json`. Returns the number of the request,
  /// from 1.
  std::uint32_t ask_where();

 private:
  /// The file, little-endian.
  struct Page {
    std::uint32_t mark;
    std::uint32_t keeps;
    std::uint32_t asked_where;  ///< requests
    std::uint32_t reserved;
    std::uint64_t switched;  ///< 2 * step, and 1 if steps from it on are observed
    std::uint64_t thinned;   ///< `ThinnedWord`
    std::uint64_t check;     ///< of the members above: a page that is read while it is written
  };

  static Page unasked();
  static std::uint64_t check_of(const Page& page);
  static bool is_sound(const Page& page);

  /// The page as it is now, or as it last was.
  const Page& page() const;

  /// Changes the page, one process at a time.
  template <class Change>
  void change(const Change& change);

  OwnFile file_;       ///< none: nothing is ever asked
  mutable Page last_;  ///< that was sound
};

}  // namespace lockstep
