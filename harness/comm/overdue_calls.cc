#include "harness/comm/overdue_calls.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "harness/comm/open_store.h"
#include "harness/comm/peer_logs.h"
#include "harness/record/collective_log.h"
#include "harness/record/whole_file.h"
#include "reports/csv_text.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kOverdue = 2s;
constexpr std::chrono::milliseconds kBetweenLooks = 200ms;
/// Of the calls before the one that is overdue: who called less goes on for a while.
constexpr std::size_t kComparedBefore = 16;
constexpr const char* kMismatch = "mismatch";

fs::path mismatch_file(const fs::path& folder, int rank) {
  return folder / fmt::format("rank-{}.mismatch.txt", rank);
}

bool is_overdue(const Collective& call) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return call.state == CollectiveState::entered &&
         now - std::chrono::nanoseconds(call.entered_ns) > kOverdue;
}

/// The calls of one rank, as they come.
class OwnCalls {
 public:
  OwnCalls(const fs::path& folder, int rank) : log_(collective_log_file(folder, rank)) {}

  /// The first that is overdue.
  std::optional<std::uint64_t> overdue() {
    const std::uint64_t count = log_.count();
    while (ended_ < count && log_.at(ended_).state != CollectiveState::entered) ++ended_;
    for (std::uint64_t seq = ended_; seq < count; ++seq) {
      const Collective call = log_.at(seq);
      if (call.number > 0 && is_overdue(call)) return seq;
    }
    return std::nullopt;
  }

  /// The call `last` and those before it in its group, in their order.
  std::deque<Collective> up_to(std::uint64_t last) const {
    std::deque<Collective> calls{log_.at(last)};
    for (std::uint64_t seq = last; seq-- > 0 && calls.size() <= kComparedBefore;) {
      Collective call = log_.at(seq);
      const bool is_of_group = call.group == calls.back().group && call.number > 0;
      if (is_of_group) calls.push_front(std::move(call));
    }
    return calls;
  }

 private:
  LiveCollectiveLog log_;
  std::uint64_t ended_ = 0;  ///< all calls before have ended
};

/// A call and whose it is, as the store has it.
std::string to_value(int rank, const Collective& call) {
  return fmt::format("{} ", rank) + to_bytes(call);
}

/// Holds a call against that of the first rank that told the store of its own.
std::optional<std::string> compare(c10d::Store& store, int rank, const Collective& call) {
  const std::string key = fmt::format("{}/{}", call.group, call.number);
  const std::string first = store.compareSet(key, std::string(), to_value(rank, call));
  const std::size_t blank = first.find(' ');
  const int other = std::stoi(first.substr(0, blank));
  if (other == rank) return std::nullopt;
  return mismatch_of(call, rank, collective_of_bytes(first.substr(blank + 1), key), other);
}

}  // namespace

void watch_overdue_calls(const Rendezvous& rendezvous, int rank, const fs::path& folder) {
  OwnCalls own(folder, rank);
  c10::intrusive_ptr<c10d::Store> store;
  std::optional<std::uint64_t> compared;
  for (;; std::this_thread::sleep_for(kBetweenLooks)) {
    const auto overdue = own.overdue();
    if (!overdue) continue;
    if (!store) {
      store =
          c10::make_intrusive<c10d::PrefixStore>("lockstep-overdue", open_store(rendezvous, 60s));
    }
    if (overdue != compared) {
      for (const Collective& call : own.up_to(*overdue)) {
        const auto mismatch = compare(*store, rank, call);
        if (mismatch) store->compareSet(kMismatch, std::string(), *mismatch);
      }
      compared = overdue;
    }
    if (!store->check({kMismatch})) continue;
    write_whole_file(mismatch_file(folder, rank), store->get_to_str(kMismatch));
    for (;;) ::pause();
  }
}

std::optional<std::string> overdue_mismatch(const fs::path& folder, int rank) {
  const fs::path file = mismatch_file(folder, rank);
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  return read_text(file.string());
}

}  // namespace lockstep
