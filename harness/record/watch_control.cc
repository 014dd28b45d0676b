#include "harness/record/watch_control.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>

#include "harness/record/new_file.h"
#include "reports/base/error.h"
#include "reports/base/unique_fd.h"

namespace lockstep {

namespace {

constexpr std::uint32_t kPageMark = 0x77'6b'63'6c;  // "lckw"

std::filesystem::path control_file(const std::filesystem::path& folder) {
  return folder / "watch.control";
}

}  // namespace

struct WatchControl::Page {
  std::uint32_t mark = kPageMark;
  std::atomic<std::uint32_t> keeps = 0;
  std::atomic<std::uint32_t> asked_where = 0;  ///< requests
  std::uint32_t reserved = 0;
  std::atomic<std::uint64_t> switched = 1;  ///< 2 * step, and 1 if steps from it on are observed
  std::atomic<std::uint64_t> thinned = 0;   ///< `ThinnedWord`
};

WatchControl::WatchControl(const std::filesystem::path& folder) {
  const std::filesystem::path path = control_file(folder);
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) return;
  struct stat status = {};
  const bool is_page = ::fstat(fd.get(), &status) == 0 && status.st_size >= off_t{sizeof(Page)};
  void* const mapped =
      is_page ? ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0)
              : MAP_FAILED;
  if (mapped == MAP_FAILED) {
    throw unreadable(path.string(), is_page ? std::strerror(errno) : "it is too short");
  }
  page_ = static_cast<Page*>(mapped);
  if (page_->mark == kPageMark) return;
  ::munmap(mapped, sizeof(Page));
  page_ = nullptr;
  throw unreadable(path.string(), "it is not the control page of a watched job");
}

WatchControl::~WatchControl() {
  if (page_) ::munmap(page_, sizeof(Page));
}

void WatchControl::create(const std::filesystem::path& folder) {
  const Page page;
  write_new_file(control_file(folder), {reinterpret_cast<const char*>(&page), sizeof page});
}

bool WatchControl::keeps() const {
  return page_ && page_->keeps.load(std::memory_order_relaxed) != 0;
}

bool WatchControl::observes(std::int64_t step) const {
  if (!page_) return true;
  const std::uint64_t switched = page_->switched.load(std::memory_order_relaxed);
  const bool is_on = switched % 2 == 1;
  return step >= static_cast<std::int64_t>(switched / 2) ? is_on : !is_on;
}

void WatchControl::switch_from(std::int64_t step, bool is_on) {
  if (!page_) return;
  const std::uint64_t switched = 2 * static_cast<std::uint64_t>(step) + (is_on ? 1 : 0);
  page_->switched.store(switched, std::memory_order_relaxed);
}

namespace {

/// One word, so that no rank reads half of it.
struct ThinnedWord {
  std::uint32_t step = 0;
  std::uint16_t before = 0;  ///< segments that count before this step
  std::uint16_t count = 0;   ///< and from it on
};

}  // namespace

std::int64_t WatchControl::thinned_segments(std::int64_t step) const {
  if (!page_) return 0;
  const auto word = std::bit_cast<ThinnedWord>(page_->thinned.load(std::memory_order_relaxed));
  return step >= word.step ? word.count : word.before;
}

void WatchControl::count_thinned_segments(std::int64_t step, std::int64_t count) {
  constexpr std::int64_t kMostSteps = std::numeric_limits<std::uint32_t>::max();
  constexpr std::int64_t kMostSegments = std::numeric_limits<std::uint16_t>::max();
  if (!page_ || step > kMostSteps || count > kMostSegments) return;
  const auto last = std::bit_cast<ThinnedWord>(page_->thinned.load(std::memory_order_relaxed));
  const ThinnedWord word{static_cast<std::uint32_t>(step), last.count,
                         static_cast<std::uint16_t>(count)};
  page_->thinned.store(std::bit_cast<std::uint64_t>(word), std::memory_order_relaxed);
}

std::uint32_t WatchControl::ask_where() {
  return page_ ? page_->asked_where.fetch_add(1, std::memory_order_relaxed) + 1 : 0;
}

void WatchControl::ask_to_keep() {
  if (page_) page_->keeps.store(1, std::memory_order_relaxed);
}

}  // namespace lockstep
