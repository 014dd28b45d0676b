#pragma once

#include <string>

namespace lockstep {

/// One line on standard error that is replaced as work goes on. Shown only on a terminal that obeys
/// escapes.
class StatusLine {
 public:
  StatusLine();
  ~StatusLine();  ///< takes the line away
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Shows `text`, cut to the width of the terminal: a line that wraps could not be taken back.
  void show(const std::string& text) const;

  /// Takes the line away, so that something else can be written.
  void clear() const;

  bool is_shown() const { return is_shown_; }

 private:
  bool is_shown_;
};

}  // namespace lockstep
