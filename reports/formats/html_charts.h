#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// Gradient norms and drift over the steps, and the map of the tensors in which ranks differ. Empty
/// without charts.
std::string html_charts(const Execution& execution);

/// A table of a scenario or a job with its chart.
std::string html_chart_of(const Table& table);

/// Markup of charts, next to each other where there is room.
std::string side_by_side_charts(const std::string& charts);

}  // namespace lockstep
