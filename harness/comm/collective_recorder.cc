#include "harness/comm/collective_recorder.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <chrono>
#include <string_view>
#include <utility>

namespace lockstep {

namespace {

thread_local CallSite this_site;
thread_local std::string this_tag;

/// "gradients.cc:41": a full path would reveal the location of a checkout.
std::string place_of(const CallSite& site) {
  if (site.line == 0) return {};
  const std::string_view file = site.file;
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), site.line);
}

}  // namespace

CallContext::CallContext(const CallSite& site) : before_(std::exchange(this_site, site)) {}
CallContext::~CallContext() { this_site = before_; }

CollectiveTag::CollectiveTag(std::string text)
    : before_(std::exchange(this_tag, std::move(text))) {}
CollectiveTag::~CollectiveTag() { this_tag = before_; }

const std::string& current_tag() { return this_tag; }

std::uint64_t CollectiveRecorder::enter(Collective& collective) {
  collective.step = step_;
  collective.site = place_of(this_site);
  const std::lock_guard lock(mutex_);
  if (!log_) {
    ++pending_;
    return 0;
  }
  const std::uint64_t seq = log_->enter(collective);
  if (peers_ && collective.number > 0) {
    // If two ranks call at once, one must see the other.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (const auto difference = peers_->difference_from(collective)) {
      log_->leave(seq, CollectiveState::failed);
      C10_THROW_ERROR(DistBackendError, *difference);
    }
  }
  ++pending_;
  return seq;
}

void CollectiveRecorder::leave(std::uint64_t seq, CollectiveState state) {
  const std::lock_guard lock(mutex_);
  --pending_;
  if (log_) log_->leave(seq, state);
  has_left_.notify_all();
}

int CollectiveRecorder::pending() {
  const std::lock_guard lock(mutex_);
  return pending_;
}

int CollectiveRecorder::close() {
  std::unique_lock lock(mutex_);
  if (log_) {
    has_left_.wait_for(lock, std::chrono::milliseconds(100), [this] { return pending_ == 0; });
  }
  log_ = nullptr;
  return pending_;
}

void record_joining(CollectiveRecorder& recorder, const RecordedGroup& group,
                    const std::function<void()>& meet) {
  Collective joining;
  joining.operation = kJoin;
  joining.group = group.name;
  joining.group_size = group.size;
  const std::uint64_t seq = recorder.enter(joining);
  try {
    meet();
  } catch (...) {
    recorder.leave(seq, CollectiveState::failed);
    throw;
  }
  recorder.leave(seq, CollectiveState::completed);
}

}  // namespace lockstep
