#include "harness/cli/explain_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/cli/option_values.h"
#include "harness/cli/standard_output.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"
#include "reports/base/terminal.h"
#include "reports/page/finding_pages.h"
#include "reports/page/scenario_page.h"

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

/// Kinds of findings, then scenarios.
std::vector<std::string> explained_words() {
  std::vector<std::string> words = all_names<FindingKind>();
  for (std::string& id : scenarios_of_page()) words.push_back(std::move(id));
  return words;
}

/// Every kind with the first sentence of its page.
std::string all_kinds(std::size_t width) {
  std::string text =
      wrapped(
          "Kinds of findings; `lockstep explain NAME` says more about one, or about a scenario:", 0,
          0, width) +
      "\n";
  for (const std::string_view kind : Names<FindingKind>::values) {
    const std::string meaning = blocks_of(page_of(*parse<FindingKind>(kind))).at(1);
    text += wrapped(fmt::format("{}: {}", kind, meaning), 2, 2, width);
  }
  return text;
}

/// The variants of a role, below a heading; "": there are none.
std::string variants_as_text(const ScenarioPage& page, std::string_view role,
                             std::string_view heading, std::size_t width) {
  std::string text;
  for (const ScenarioPage::Variant& variant : page.variants) {
    if (variant.role != role) continue;
    text += wrapped(fmt::format("- {}: {}", variant.name, variant.description), 2, 2, width);
  }
  return text.empty() ? "" : fmt::format("\n{}:\n{}", heading, text);
}

/// A scenario for those who have no catalogue: what goes wrong, and what mends it.
std::string scenario_as_text(const std::string& id, const ScenarioPage& page, std::size_t width) {
  std::string text = wrapped(fmt::format("{}, a scenario of the catalogue:", id), 0, 2, width);
  text += wrapped(page.meaning, 2, 0, width);
  if (!page.origin.empty()) text += wrapped(fmt::format("From: {}", page.origin), 2, 2, width);
  text += variants_as_text(page, "buggy", "Faulty", width);
  text += variants_as_text(page, "wrong-fix", "Does not mend it", width);
  text += variants_as_text(page, "fixed", "Mends it", width);
  return text + "\n" +
         wrapped(fmt::format("With the catalogue: lockstep show {0}; lockstep run {0}", id), 0, 2,
                 width);
}

ExitStatus explain(const std::string& word) {
  const std::size_t width = terminal_of(STDOUT_FILENO).width;
  if (word.empty()) {
    write_standard_output(all_kinds(width));
    return ExitStatus::as_expected;
  }
  if (const auto kind = parse<FindingKind>(word)) {
    write_standard_output(page_as_text(page_of(*kind), width));
  } else if (const auto scenario = scenario_page(word)) {
    write_standard_output(scenario_as_text(word, *scenario, width));
  } else {
    throw unknown_name("kind of finding or scenario", word, explained_words());
  }
  return ExitStatus::as_expected;
}

}  // namespace

Command explain_command() {
  auto word = std::make_shared<std::string>();
  return {"explain",
          [word](CLI::App& app) {
            app.add_option("NAME", *word,
                           "kind of finding or scenario, as reports name it; none: all kinds")
                ->type_name("");
          },
          [word] { return explain(*word); },
          {},
          [] {
            return OfferedWords{{"NAME", explained_words()}};
          }};
}

}  // namespace lockstep
