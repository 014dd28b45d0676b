#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "reports/formats/markdown_parts.h"
#include "reports/formats/sections.h"

namespace lockstep {

inline constexpr std::size_t kMostOfAText = 2000;

/// Text from outside in a sentence, cut to kMostOfAText bytes.
std::string sentence_text(const std::string& text);

/// The same for a name or title, shorter.
std::string title_text(const std::string& text);

/// A fold. `summary`: HTML.
std::string collapsible(const std::string& summary, const std::string& body, bool is_open = false);

/// The points of a list that fit in `most` bytes, at least one, and the number of the others.
std::string list_text(const std::vector<std::string>& points, std::size_t most);

/// The folds of a page, in order: jobs, then the scenarios in their worlds.
class Folds {
 public:
  /// `most`: bytes of the list of one cell or job. `is_brief`: of the page (`PageLimits`).
  explicit Folds(std::size_t most, bool is_brief = false) : most_(most), is_brief_(is_brief) {}

  /// `title`: of the job in the page, whose table has its name.
  void add(const JobRecord& job, const std::string& title);
  void add(const Section& section);
  void add(const Comparison& comparison);

  /// Adds a piece that is a fold itself. `body`: Markdown; nothing is added without one.
  void add(Part part, const std::string& summary, const std::string& body);

  Pieces take() { return std::move(pieces_); }

 private:
  void open(Part part, const std::string& title, const std::string& symptom);
  void put(Part part, const std::string& text);
  void add_cells(const Section& section);
  void add_matrix(const Section& section);
  void add_tables(const JobRecord& job, bool is_wrong);
  void add_in_brief(const JobRecord& job);

  std::size_t most_;
  bool is_brief_;
  int folds_ = 0;
  bool has_open_ = false;  ///< the first failure is unfolded
  Pieces pieces_;
};

}  // namespace lockstep
