#include "harness/pack/redaction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <cctype>

#include "reports/base/error.h"

namespace lockstep {

namespace {

/// Of a line in which each match is replaced. All matches of an expression can take time quadratic
/// in the line, even where one search is linear.
constexpr std::size_t kLongest = 4096;

/// "weight: exp_avg" is the state "exp_avg" of the parameter "weight".
constexpr std::string_view kBetween = ": ";

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != name.npos; begin = end + kBetween.size()) {
    end = name.find(kBetween, begin);
    parts.push_back(name.substr(begin, end - begin));
  }
  return parts;
}

bool is_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

/// Whether a name can begin at `at`: "weight" does not begin within "layers.weight".
bool is_begin(std::string_view text, std::size_t at) {
  return at == 0 || (!is_letter(text[at - 1]) && text[at - 1] != '.');
}

/// Whether a name can end at `at`: a full stop is no part of it.
bool is_end(std::string_view text, std::size_t at) {
  if (at >= text.size()) return true;
  const bool is_inner_dot = text[at] == '.' && at + 1 < text.size() && is_letter(text[at + 1]);
  return !is_letter(text[at]) && !is_inner_dot;
}

}  // namespace

Redaction::Redaction(const std::vector<std::string>& patterns) {
  RE2::Options options;
  options.set_log_errors(false);
  for (const std::string& pattern : patterns) {
    const auto compiled = std::make_shared<const RE2>(pattern, options);
    if (compiled->error_code() == RE2::ErrorPatternTooLarge) {
      throw bad_value("--redact", pattern, "a simpler expression");
    }
    if (!compiled->ok()) throw bad_value("--redact", pattern, "a regular expression");
    patterns_.push_back(compiled);
  }
}

void Redaction::learn(const std::string& name) {
  if (name.empty() || !known_.insert(name).second) return;
  bool has_match = false;
  for (const std::string& part : parts_of(name)) {
    known_.insert(part);
    if (part.empty() || !matches(part)) continue;
    masked_.insert(part);
    has_match = true;
  }
  if (!has_match && matches(name)) masked_.insert(name);
}

std::string Redaction::name(const std::string& name) {
  learn(name);
  if (masked_.contains(name)) return pseudonym(name);
  std::vector<std::string> parts = parts_of(name);
  for (std::string& part : parts) {
    if (masked_.contains(part)) part = pseudonym(part);
  }
  return fmt::format("{}", fmt::join(parts, kBetween));
}

std::string Redaction::text(const std::string& text) {
  if (!is_asked_for()) return text;
  std::string replaced;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != text.npos; begin = end + 1) {
    end = text.find('\n', begin);
    replaced += line(text.substr(begin, end - begin));
    if (end != text.npos) replaced += '\n';
  }
  return replaced;
}

bool Redaction::matches(const std::string& text) const {
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const auto& pattern) { return RE2::PartialMatch(text, *pattern); });
}

std::string Redaction::pseudonym(const std::string& name) {
  std::string& found = pseudonyms_[name];
  while (found.empty()) {
    const std::string next = fmt::format("name-{}", ++last_);
    if (!known_.contains(next)) found = next;
  }
  return found;
}

std::string Redaction::line(const std::string& text) {
  if (text.size() > kLongest) return has_name_or_match(text) ? pseudonym(text) : text;
  Pieces pieces{{text, false}};
  for (const std::string& name : masked_) {
    replace(pieces, [&](const std::string& piece) { return place_of_name(piece, name); });
  }
  for (const auto& pattern : patterns_) {
    replace(pieces, [&](const std::string& piece) { return place_of_match(piece, *pattern); });
  }
  std::string replaced;
  for (const Piece& piece : pieces) replaced += piece.text;
  return replaced;
}

void Redaction::replace(Pieces& pieces, const std::function<Place(const std::string&)>& find) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Place place = pieces[i].is_replaced ? Place{} : find(pieces[i].text);
    if (place.size == 0) continue;
    const std::string whole = pieces[i].text;
    pieces[i].text = whole.substr(0, place.begin);
    const Piece replaced{pseudonym(whole.substr(place.begin, place.size)), true};
    const Piece rest{whole.substr(place.begin + place.size), false};
    pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1, {replaced, rest});
  }
}

Redaction::Place Redaction::place_of_name(const std::string& text, const std::string& name) {
  std::size_t at = text.find(name);
  while (at != text.npos && !(is_begin(text, at) && is_end(text, at + name.size()))) {
    at = text.find(name, at + 1);
  }
  return at == text.npos ? Place{} : Place{at, name.size()};
}

bool Redaction::has_name_or_match(const std::string& text) const {
  return matches(text) || std::any_of(masked_.begin(), masked_.end(), [&](const std::string& name) {
           return place_of_name(text, name).size > 0;
         });
}

Redaction::Place Redaction::place_of_match(const std::string& text, const RE2& pattern) {
  for (std::size_t from = 0; from <= text.size(); ++from) {
    re2::StringPiece match;
    if (!pattern.Match(text, from, text.size(), RE2::UNANCHORED, &match, 1)) break;
    const auto begin = static_cast<std::size_t>(match.data() - text.data());
    if (!match.empty()) return {begin, match.size()};
    from = begin;
  }
  return {};
}

}  // namespace lockstep
