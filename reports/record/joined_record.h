#pragma once

#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// A run among several in one report.
struct RunToJoin {
  std::string name;    ///< as the reader knows it: "runs/a"
  std::string folder;  ///< that its folders are in, put in front of them; empty: they stay
  RunRecord run;
};

/// One record with the cells, jobs and tables of all runs, in their order, for reports: each
/// renderer then shows several runs as it shows one. A cell that several runs have is numbered on
/// as a repetition. Jobs and tables that are called alike get the name of their run. Notes say what
/// came from which run, and which runs were made by other versions. One run stays as it is.
RunRecord join_records(std::vector<RunToJoin> runs);

}  // namespace lockstep
