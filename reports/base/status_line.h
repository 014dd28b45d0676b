#pragma once

#include <string>

namespace lockstep {

/// One line on standard error that is replaced as work proceeds. Shown only on a terminal.
class StatusLine {
 public:
  StatusLine();
  ~StatusLine();  ///< removes the line
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Shows `text`, cut to the terminal's width, because a wrapped line could not be removed.
  void show(const std::string& text) const;

 private:
  void clear() const;

  bool is_shown_;
};

}  // namespace lockstep
