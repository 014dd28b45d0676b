#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// The colour of a verdict.
enum class Tone { good, bad, open };

/// A part of a page below a heading, which the table of contents lists.
struct HtmlSection {
  std::string id;       ///< unique in the page: a word of letters, digits and hyphens
  std::string heading;  ///< markup
  std::string body;     ///< markup
};

/// A page in one file. Its policy forbids the network and any script or style but its own. All
/// content is in the markup; the script adds charts and filters.
struct HtmlPage {
  std::string title;    ///< text
  std::string kicker;   ///< text above the verdict
  std::string verdict;  ///< markup of one sentence
  Tone tone = Tone::open;
  std::vector<std::string> lead;  ///< markup of paragraphs below the verdict
  std::vector<HtmlSection> sections;
};

std::string html_of(const HtmlPage& page);

/// "<dl>" of terms and markup; entries with empty markup are left out.
std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts);

/// A part that opens on demand. Both are markup.
std::string html_details(std::string_view summary, std::string_view body, bool is_open = false);

/// Output of programs, with its lines: text. `label`: markup, for screen readers.
std::string html_output(std::string_view label, std::string_view text);

/// "<ul>" of markup; empty without items.
std::string html_list(const std::vector<std::string>& items);

/// A coloured word: markup.
std::string html_badge(std::string_view word, Tone tone);

}  // namespace lockstep
