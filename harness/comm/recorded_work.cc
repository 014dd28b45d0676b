#include "harness/comm/recorded_work.h"

#include <utility>

namespace lockstep {

RecordedWork::RecordedWork(c10::intrusive_ptr<c10d::Work> inner,
                           std::shared_ptr<CollectiveRecorder> recorder, std::uint64_t seq)
    : Work(-1, inner->retrieveOpType()),
      inner_(std::move(inner)),
      recorder_(std::move(recorder)),
      seq_(seq) {}

/// No thread can wait for it any more, however it ends.
RecordedWork::~RecordedWork() { leave(CollectiveState::completed); }

bool RecordedWork::wait(std::chrono::milliseconds timeout) {
  try {
    const bool is_done = inner_->wait(timeout);
    leave(is_done ? CollectiveState::completed : CollectiveState::failed);
    return is_done;
  } catch (...) {
    leave(CollectiveState::failed);
    throw;
  }
}

void RecordedWork::leave(CollectiveState state) {
  if (!has_left_.exchange(true)) recorder_->leave(seq_, state);
}

}  // namespace lockstep
