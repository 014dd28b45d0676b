#include "harness/judge/predicates.h"

namespace lockstep {

void judge_collectives(const Case&, ClaimResult& result) {
  result.reason = "not triggered: no collective is on record";
}

}  // namespace lockstep
