#include "harness/judge/evidence/settle.h"

namespace lockstep {

void settle(ClaimResult& result, const std::string& too_close) {
  if (result.verdict == Verdict::violated) {
    result.reason.clear();
  } else if (!result.reason.empty()) {
    result.verdict = Verdict::undecided;
  } else if (result.verdict == Verdict::undecided) {
    result.reason = too_close;
  }
}

}  // namespace lockstep
