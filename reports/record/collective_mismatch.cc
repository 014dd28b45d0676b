#include "reports/record/collective_mismatch.h"

namespace lockstep {

bool is_difference_of_calls(MismatchFault fault) {
  switch (fault) {
    case MismatchFault::missing:
    case MismatchFault::dead:
    case MismatchFault::stopped:
    case MismatchFault::not_started:
    case MismatchFault::stuck:
      return false;
    case MismatchFault::operation:
    case MismatchFault::size:
    case MismatchFault::dtype:
    case MismatchFault::reduction:
    case MismatchFault::root:
    case MismatchFault::order:
    case MismatchFault::tensors:
    case MismatchFault::count:
      return true;
  }
  return false;
}

}  // namespace lockstep
