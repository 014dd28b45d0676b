#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace re2 {
class RE2;
}

namespace lockstep {

/// Replaces the names that match one of several expressions, and what else matches in texts, by
/// pseudonyms: "name-1", "name-2", ... in the order of their first use. Equal names have one
/// pseudonym and others have others, so files with pseudonyms compare like those with names.
class Redaction {
 public:
  /// `patterns` are expressions of RE2 that match anywhere in a name: a search takes time linear in
  /// the text, whatever the expression. Throws Error (usage) if one is malformed.
  explicit Redaction(const std::vector<std::string>& patterns);

  /// Whether there is an expression.
  bool is_asked_for() const { return !patterns_.empty(); }

  /// Learns a name: of a tensor, a group, a function or a source. Call it for all names before the
  /// first one is replaced: a pseudonym must not be the name of anything else. The parts of
  /// "weight: exp_avg" are names, too.
  void learn(const std::string& name);

  /// A name, or its pseudonym.
  std::string name(const std::string& name);

  /// A text in which learnt names and other matches are replaced. A very long line with one of them
  /// is replaced as a whole.
  std::string text(const std::string& text);

  /// Number of pseudonyms in use.
  std::size_t size() const { return pseudonyms_.size(); }

 private:
  /// Bytes of a text; a size of 0: none.
  struct Place {
    std::size_t begin = 0;
    std::size_t size = 0;
  };
  /// A part of a line; what was replaced is not looked at again.
  struct Piece {
    std::string text;
    bool is_replaced = false;
  };
  using Pieces = std::vector<Piece>;
  /// The longest first: "a.weight" before "a".
  struct IsLonger {
    bool operator()(const std::string& a, const std::string& b) const {
      return a.size() != b.size() ? a.size() > b.size() : a < b;
    }
  };

  bool matches(const std::string& text) const;
  bool has_name_or_match(const std::string& text) const;
  std::string pseudonym(const std::string& name);
  std::string line(const std::string& text);
  void replace(Pieces& pieces, const std::function<Place(const std::string&)>& find);
  static Place place_of_name(const std::string& text, const std::string& name);
  static Place place_of_match(const std::string& text, const re2::RE2& pattern);

  std::vector<std::shared_ptr<const re2::RE2>> patterns_;
  std::set<std::string> known_;                    ///< all names, masked or not
  std::set<std::string, IsLonger> masked_;         ///< those that match
  std::map<std::string, std::string> pseudonyms_;  ///< by name
  std::size_t last_ = 0;                           ///< number of the last pseudonym
};

}  // namespace lockstep
