#include "harness/cli/explain_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "harness/cli/option_values.h"
#include "harness/cli/standard_output.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"
#include "reports/base/terminal.h"
#include "reports/page/finding_pages.h"

namespace lockstep {

namespace {

/// A line, item or heading of a page, as long as it is.
std::vector<std::string> blocks_of(std::string_view page) {
  std::vector<std::string> blocks;
  std::istringstream lines{std::string(page)};
  bool is_open = false;
  for (std::string line; std::getline(lines, line);) {
    const bool is_start = line.starts_with("- ") || line.starts_with("#");
    if (line.empty()) {
      is_open = false;
    } else if (is_open && !is_start) {
      blocks.back() += " " + line.substr(line.find_first_not_of(' '));
    } else {
      blocks.push_back(line);
      is_open = !line.starts_with("#");
    }
  }
  return blocks;
}

/// A page of Markdown for a terminal.
std::string page_as_text(std::string_view page, std::size_t width) {
  std::string text;
  for (const std::string& block : blocks_of(page)) {
    if (block.starts_with("# ")) {
      text += wrapped(block.substr(2) + ":", 0, 2, width);
    } else if (block.starts_with("## ")) {
      text += "\n" + wrapped(block.substr(3) + ":", 0, 2, width);
    } else {
      text += wrapped(block, 2, block.starts_with("- ") ? 2 : 0, width);
    }
  }
  return text;
}

/// Every kind with the first sentence of its page.
std::string all_kinds(std::size_t width) {
  std::string text =
      wrapped("Kinds of findings; `lockstep explain KIND` says more about one:", 0, 0, width) +
      "\n";
  for (const std::string_view kind : Names<FindingKind>::values) {
    const std::string meaning = blocks_of(page_of(*parse<FindingKind>(kind))).at(1);
    text += wrapped(fmt::format("{}: {}", kind, meaning), 2, 2, width);
  }
  return text;
}

ExitStatus explain(const std::string& word) {
  const std::size_t width = terminal_of(STDOUT_FILENO).width;
  if (word.empty()) {
    write_standard_output(all_kinds(width));
    return ExitStatus::as_expected;
  }
  const auto kind = parse<FindingKind>(word);
  if (!kind) {
    throw unknown_name("kind of finding", word, all_names<FindingKind>());
  }
  write_standard_output(page_as_text(page_of(*kind), width));
  return ExitStatus::as_expected;
}

}  // namespace

Command explain_command() {
  auto word = std::make_shared<std::string>();
  return {"explain",
          [word](CLI::App& app) {
            app.add_option("KIND", *word, "kind of finding, as reports name it; none: all kinds")
                ->type_name("");
          },
          [word] { return explain(*word); },
          {},
          [] {
            return OfferedWords{{"KIND", all_names<FindingKind>()}};
          }};
}

}  // namespace lockstep
