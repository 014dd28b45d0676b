#include "harness/comm/overdue_calls.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "harness/comm/open_store.h"
#include "harness/comm/peer_logs.h"
#include "harness/record/collective_log.h"
#include "harness/record/whole_file.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kOverdue = 2s;
constexpr std::chrono::milliseconds kBetweenLooks = 200ms;
/// Number of earlier calls of a group to compare at first: a rank that skipped a call continues for
/// a while.
constexpr std::uint64_t kComparedBefore = 64;
constexpr const char* kMismatch = "mismatch";

fs::path mismatch_file(const fs::path& folder, int rank) {
  return folder / fmt::format("rank-{}.mismatch.txt", rank);
}

bool is_overdue(const Collective& call) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return call.state == CollectiveState::entered &&
         now - std::chrono::nanoseconds(call.entered_ns) > kOverdue;
}

/// The calls of one rank, as they appear.
class OwnCalls {
 public:
  OwnCalls(const fs::path& folder, int rank) : log_(collective_log_file(folder, rank)) {}

  /// The calls of every group with an overdue call, up to the last overdue one, in call order.
  /// Calls returned before are omitted.
  std::vector<Collective> up_to_overdue() {
    const std::uint64_t count = log_.count();
    while (ended_ < count && log_.at(ended_).state != CollectiveState::entered) ++ended_;
    std::map<std::string, std::uint64_t> overdue;  // number, by group
    for (std::uint64_t seq = ended_; seq < count; ++seq) {
      const Collective call = log_.at(seq);
      if (call.number > 0 && is_overdue(call)) overdue[call.group] = call.number;
    }
    std::erase_if(overdue, [&](const auto& last) { return returned_[last.first] >= last.second; });
    std::vector<Collective> calls;
    for (std::uint64_t seq = 0; seq < count && !overdue.empty(); ++seq) {
      Collective call = log_.at(seq);
      const auto last = overdue.find(call.group);
      if (last == overdue.end() || call.number > last->second) continue;
      const bool is_near = call.number + kComparedBefore >= last->second;
      if (call.number > returned_[call.group] && is_near) calls.push_back(std::move(call));
    }
    for (const auto& [group, number] : overdue) returned_[group] = number;
    return calls;
  }

 private:
  LiveCollectiveLog log_;
  std::uint64_t ended_ = 0;                        ///< all earlier calls have ended
  std::map<std::string, std::uint64_t> returned_;  ///< the last number, by group
};

/// A call and its rank, as stored in the store.
std::string to_value(int rank, const Collective& call) {
  return fmt::format("{} ", rank) + to_bytes(call);
}

/// Compares a call with that of the first rank that published its own in the store.
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
  for (;; std::this_thread::sleep_for(kBetweenLooks)) {
    const std::vector<Collective> calls = own.up_to_overdue();
    if (!calls.empty() && !store) {
      store =
          c10::make_intrusive<c10d::PrefixStore>("lockstep-overdue", open_store(rendezvous, 60s));
    }
    for (const Collective& call : calls) {
      const auto mismatch = compare(*store, rank, call);
      if (mismatch) store->compareSet(kMismatch, std::string(), *mismatch);
    }
    if (!store || !store->check({kMismatch})) continue;
    write_whole_file(mismatch_file(folder, rank), store->get_to_str(kMismatch));
    for (;;) ::pause();
  }
}

std::optional<std::string> overdue_mismatch(const fs::path& folder, int rank) {
  const fs::path file = mismatch_file(folder, rank);
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  return read_text(file, kLargestStatus);
}

}  // namespace lockstep
