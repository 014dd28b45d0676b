#include "harness/record/rank_stack.h"

#include <nlohmann/json.hpp>

#include "reports/base/secrets.h"

namespace lockstep {

std::vector<std::string> stack_in(const nlohmann::json& frames) {
  std::vector<std::string> stack;
  for (const nlohmann::json& one : frames) {
    if (stack.size() == kMostFrames) break;
    stack.push_back(mask_secrets(one.get<std::string>()));
  }
  return stack;
}

}  // namespace lockstep
