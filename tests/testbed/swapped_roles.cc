// The planted bit with swapped roles: both lines of the detection table must turn red.

#include "harness/scenario/scenario.h"
#include "tests/testbed/planted_bit.h"

namespace lockstep {

Scenario planted_bit();

Scenario swapped_roles() {
  Scenario scenario = planted_bit();
  for (Variant& variant : scenario.variants) {
    variant.role = variant.role == Role::buggy ? Role::fixed : Role::buggy;
  }
  return scenario;
}

}  // namespace lockstep
