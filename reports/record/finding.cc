#include "reports/record/finding.h"

namespace lockstep {

std::string origin_in_words(const Finding& finding) {
  return finding.multiple ? in_words(*finding.multiple) : finding.attribution_in_words;
}

}  // namespace lockstep
