#include "harness/record/watch_control.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>

#include "harness/record/digest.h"
#include "harness/record/new_file.h"
#include "harness/record/splitmix64.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

constexpr std::uint32_t kPageMark = 0x77'6b'63'6c;  // "lckw"

std::filesystem::path control_file(const std::filesystem::path& folder) {
  return folder / "watch.control";
}

/// Segments of each rank's journal that count as thinned.
struct ThinnedWord {
  std::uint32_t step = 0;
  std::uint16_t before = 0;  ///< segments that count before this step
  std::uint16_t count = 0;   ///< and from it on
};

}  // namespace

WatchControl::Page WatchControl::unasked() {
  Page page{kPageMark, 0, 0, 0, 1, 0, 0};
  page.check = check_of(page);
  return page;
}

std::uint64_t WatchControl::check_of(const Page& page) {
  const std::uint64_t counts = std::uint64_t{page.keeps} << 32 | page.asked_where;
  return splitmix64(splitmix64(splitmix64(counts) ^ page.switched) ^ page.thinned);
}

bool WatchControl::is_sound(const Page& page) {
  return page.mark == kPageMark && is_intact(check_of(page), page.check);
}

WatchControl::WatchControl(const std::filesystem::path& folder) : last_(unasked()) {
  const std::filesystem::path path = control_file(folder);
  file_ = OwnFile(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file_.valid() && errno == ENOENT) return;
  if (!file_.valid()) throw unreadable(path.string(), std::strerror(errno));
  Page page = {};
  const ssize_t size = ::pread(file_.get(), &page, sizeof page, 0);
  if (size < 0) throw unreadable(path.string(), std::strerror(errno));
  if (size < ssize_t{sizeof page}) throw unreadable(path.string(), "it is too short");
  if (page.mark != kPageMark) {
    throw unreadable(path.string(), "it is not the control page of a watched job");
  }
}

void WatchControl::create(const std::filesystem::path& folder) {
  const Page page = unasked();
  write_new_file(control_file(folder), {reinterpret_cast<const char*>(&page), sizeof page});
}

const WatchControl::Page& WatchControl::page() const {
  Page page = {};
  const bool is_whole = file_.valid() && file_.is_own() &&
                        ::pread(file_.get(), &page, sizeof page, 0) == ssize_t{sizeof page};
  if (is_whole && is_sound(page)) last_ = page;
  return last_;
}

template <class Change>
void WatchControl::change(const Change& change) {
  if (!file_.valid() || !file_.is_own()) return;
  // Where the file system has no locks, two processes that ask at the same moment may lose a
  // question; both ask again.
  static_cast<void>(::flock(file_.get(), LOCK_EX));
  Page next = page();
  change(next);
  next.check = check_of(next);
  if (::pwrite(file_.get(), &next, sizeof next, 0) == ssize_t{sizeof next}) last_ = next;
  static_cast<void>(::flock(file_.get(), LOCK_UN));
}

bool WatchControl::keeps() const { return page().keeps != 0; }

bool WatchControl::observes(std::int64_t step) const {
  const std::uint64_t switched = page().switched;
  const bool is_on = switched % 2 == 1;
  return step >= static_cast<std::int64_t>(switched / 2) ? is_on : !is_on;
}

void WatchControl::switch_from(std::int64_t step, bool is_on) {
  change(
      [&](Page& page) { page.switched = 2 * static_cast<std::uint64_t>(step) + (is_on ? 1 : 0); });
}

std::int64_t WatchControl::thinned_segments(std::int64_t step) const {
  const auto word = std::bit_cast<ThinnedWord>(page().thinned);
  return step >= word.step ? word.count : word.before;
}

void WatchControl::count_thinned_segments(std::int64_t step, std::int64_t count) {
  constexpr std::int64_t kMostSteps = std::numeric_limits<std::uint32_t>::max();
  constexpr std::int64_t kMostSegments = std::numeric_limits<std::uint16_t>::max();
  if (step > kMostSteps || count > kMostSegments) return;
  change([&](Page& page) {
    const auto last = std::bit_cast<ThinnedWord>(page.thinned);
    page.thinned = std::bit_cast<std::uint64_t>(ThinnedWord{
        static_cast<std::uint32_t>(step), last.count, static_cast<std::uint16_t>(count)});
  });
}

std::uint32_t WatchControl::ask_where() {
  if (!file_.valid()) return 0;
  change([](Page& page) { ++page.asked_where; });
  return last_.asked_where;
}

void WatchControl::ask_to_keep() {
  change([](Page& page) { page.keeps = 1; });
}

}  // namespace lockstep
