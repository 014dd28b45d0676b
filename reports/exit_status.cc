#include "reports/exit_status.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/plain_text.h"

namespace lockstep {

namespace {

std::string order() {
  std::string text;
  for (const ExitStatus status : kFromWorst) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", static_cast<int>(status));
  }
  return fmt::format("Of several, the first of {} counts.", text);
}

}  // namespace

ExitStatus exit_status(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::unmet:
      return ExitStatus::failed;
    case Error::Kind::usage:
      return ExitStatus::usage;
    case Error::Kind::internal:
      break;
  }
  return ExitStatus::defect;
}

ExitStatus worse(ExitStatus a, ExitStatus b) {
  return *std::find_if(kFromWorst.begin(), kFromWorst.end(),
                       [&](ExitStatus status) { return status == a || status == b; });
}

std::string exit_statuses_as_text() {
  constexpr std::size_t kIndent = 7;
  std::string text = "Exit status:\n";
  for (const auto& [status, meaning] : kExitMeanings) {
    const std::string number = fmt::format("{:>{}}  ", static_cast<int>(status), kIndent - 2);
    text += wrapped(std::string(meaning), kIndent).replace(0, kIndent, number);
  }
  return text + wrapped(order(), 2);
}

std::string exit_statuses_as_markdown() {
  std::string text = "| exit status | meaning |\n|---|---|\n";
  for (const auto& [status, meaning] : kExitMeanings) {
    text += fmt::format("| {} | {} |\n", static_cast<int>(status), meaning);
  }
  std::replace(text.begin(), text.end(), '\'', '`');
  return text + "\n" + order() + "\n";
}

}  // namespace lockstep
