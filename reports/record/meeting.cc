#include "reports/record/meeting.h"

namespace lockstep {

bool is_mismatch(MeetingFault fault) {
  switch (fault) {
    case MeetingFault::missing:
    case MeetingFault::dead:
    case MeetingFault::stopped:
    case MeetingFault::not_started:
      return false;
    case MeetingFault::operation:
    case MeetingFault::size:
    case MeetingFault::dtype:
    case MeetingFault::reduction:
    case MeetingFault::root:
    case MeetingFault::order:
    case MeetingFault::tensors:
    case MeetingFault::count:
      return true;
  }
  return false;
}

}  // namespace lockstep
