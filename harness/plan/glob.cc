#include "harness/plan/glob.h"

#include <fnmatch.h>

namespace lockstep {

bool is_glob(std::string_view word) { return word.find_first_of("*?[") != word.npos; }

bool matches_glob(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

}  // namespace lockstep
