#pragma once

#include <string>

namespace lockstep {

/// One line on standard error that is replaced as work goes on. Shown only on a terminal that obeys
/// escapes.
class StatusLine {
 public:
  StatusLine();
  ~StatusLine();  ///< removes the line
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Shows `text`, cut to the terminal's width, because a wrapped line could not be removed.
  void show(const std::string& text);

  /// Takes the line away, so that something else can be written.
  void clear();

  bool is_shown() const { return is_shown_; }

 private:
  bool is_shown_;
  bool has_text_ = false;
};

}  // namespace lockstep
