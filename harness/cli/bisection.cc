#include "harness/cli/bisection.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace lockstep {

namespace {

constexpr const char* kOption = "--bisect";
constexpr int kSkip = 125;
constexpr int kEnd = 255;

}  // namespace

void add_bisect_option(CLI::App& app, bool& is_chosen) {
  app.add_flag(kOption, is_chosen,
               "exit as 'git bisect run' wants it: 0 good, 1 bad, 125 if nothing was decided or "
               "compared");
}

bool has_bisect_option(const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), kOption) != words.end();
}

int status_for_bisect(ExitStatus status) {
  switch (status) {
    case ExitStatus::undecided:
    case ExitStatus::not_applicable:
      return kSkip;
    case ExitStatus::usage:
    case ExitStatus::defect:
      return kEnd;
    default:
      return static_cast<int>(status);
  }
}

int status_for_bisect(Error::Kind kind) {
  const bool is_of_machine = kind == Error::Kind::unmet || kind == Error::Kind::machine;
  return is_of_machine ? kSkip : kEnd;
}

}  // namespace lockstep
