#pragma once

#include <cstdint>
#include <filesystem>

namespace lockstep {

/// What the parent asks of the ranks of a running job: one page, `watch.control` in the job's
/// folder, that all of them map. Reading it costs a load, so ranks do it in every step.
class WatchControl {
 public:
  /// Maps the page of the job in `folder`. Without one nothing is ever asked. Throws Error (usage)
  /// if it is another file.
  explicit WatchControl(const std::filesystem::path& folder);
  ~WatchControl();
  WatchControl(const WatchControl&) = delete;
  WatchControl& operator=(const WatchControl&) = delete;

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
  struct Page;

  Page* page_ = nullptr;  ///< null: there is none
};

}  // namespace lockstep
