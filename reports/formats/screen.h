#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/names.h"
#include "reports/base/plain_text.h"
#include "reports/record/result.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// How much of a run the console report shows.
///   verdict    only the verdict
///   overview   a line per scenario, and everything unexpected; for a single scenario also its
///              tables, and a line per variant with its findings
///   variants   the same, and a line per variant of every scenario
///   full       every finding with its bits, every table, the cost of a step
enum class Verbosity { verdict, overview, variants, full };

template <>
struct Names<Verbosity> {
  static constexpr std::array<std::string_view, 4> values{"verdict", "overview", "variants",
                                                          "full"};
};

/// The target of a console report. The default is a file: everything, and no escapes.
struct Screen {
  Verbosity verbosity = Verbosity::full;
  std::size_t width = kConsoleWidth;
  bool has_colour = false;      ///< the words of a verdict may be coloured
  bool has_sparklines = false;  ///< it shows block characters
  std::string folder;           ///< of the run's files; empty: not shown
  std::string size = {};        ///< of these files, if they are large: "2.1 GiB"; empty: not shown
  std::vector<std::string> reports = {};  ///< files of reports to be named
};

/// The console report for `screen`.
std::string render_screen(const RunRecord& run, const Screen& screen);

/// An unexpected cell, as at the end of the report: with its scenario, in full except for bits.
std::string failure_text(const CellRecord& cell, const Screen& screen);

/// `text`, or its part of `size` bytes at `begin`, in the colour of a result: green as expected,
/// red a failure, yellow anything else. Unchanged if the screen has no colour.
std::string painted(const std::string& text, Result result, const Screen& screen,
                    std::size_t begin = 0, std::size_t size = std::string::npos);

}  // namespace lockstep
