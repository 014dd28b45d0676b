// Writes the pages that pages_test.py opens in a browser: write_pages FOLDER

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "reports/formats/renderer.h"
#include "tests/command.h"
#include "tests/reports/comparison/literal_comparisons.h"
#include "tests/reports/formats/literal_charts.h"
#include "tests/reports/formats/literal_matrix.h"
#include "tests/reports/formats/nasty_run.h"

namespace lockstep {
namespace {

/// A text that would run script in an element, an attribute or a script.
const std::string kScript =
    "\"'><img src=x onerror=\"document.title='planted'\"><script>document.title='planted'</script>"
    "</script></style></title><b onmouseover=alert(1)>";

/// The whole page of a job: drift, a map, lanes with a mismatch, gaps, an estimate.
RunRecord charted_run() {
  Charts charts = literal_charts(3, 40, 6);
  StepSeries& series = charts.series;
  series.norms[2].values[9] = std::numeric_limits<double>::quiet_NaN();
  series.norms[1].values[19] = std::numeric_limits<double>::infinity();
  series.drift[29] = std::numeric_limits<double>::quiet_NaN();
  series.estimated_drift[29] = 0.25;
  charts.agreement.differing = {literal_course("a.weight", 5, 40),
                                literal_course("b.bias", 17, 17)};
  charts.lanes = literal_lanes();
  RunRecord run = literal_charted_job(std::move(charts), 3);
  JobRecord& job = run.jobs[0];
  job.symptom.text = "ranks differ from step 5 on: a.weight";
  job.results[0].verdict = Verdict::violated;
  job.results[0].findings = {literal_divergence()};
  job.mismatch = literal_mismatch_of_lanes();
  return run;
}

RunRecord many_findings() {
  RunRecord run = literal_jobs();
  run.jobs = {run.jobs[1]};
  std::vector<Finding>& findings = run.jobs[0].results[0].findings;
  const Finding finding = findings[0];
  for (int i = 1; i < 10000; ++i) {
    findings.push_back(finding);
    findings.back().tensor = fmt::format("layers.{}.weight", i);
  }
  return run;
}

/// 1000 steps, 64 ranks, 500 tensors.
RunRecord big_run() {
  Charts charts = literal_charts(64, 1000, 500);
  for (int i = 0; i < 500; ++i) {
    charts.agreement.differing.push_back(
        literal_course(fmt::format("model.layers.{}.mlp.gate_proj.weight", i), 1 + i, 1000));
  }
  return literal_charted_job(std::move(charts), 64);
}

/// 4096 ranks, of which 64 have a line.
RunRecord wide_run() {
  Charts charts = literal_charts(64, 976, 500);
  charts.series.ranks_left_out = 4096 - 64;
  TensorCourse course = literal_course("weight", 3, 976);
  course.groups = {{}, {17}};
  for (int rank = 0; rank < 4096; ++rank) {
    if (rank != 17) course.groups[0].push_back(rank);
  }
  charts.agreement.differing = {course};
  charts.lanes = literal_lanes();
  charts.lanes.lanes[0].ranks = course.groups[0];
  charts.lanes.lanes[1].ranks = {17};
  return literal_charted_job(std::move(charts), 4096);
}

/// One differing step of one tensor, of a million.
RunRecord million_run() {
  Charts charts = literal_charts(2, 1000, 1000);
  for (std::int64_t& differing : charts.series.differing) differing = 0;
  charts.series.differing[636] = 1;
  charts.agreement.differing = {literal_course("layers.17.weight", 637, 637)};
  return literal_charted_job(std::move(charts), 2);
}

StepDifference difference_in(std::int64_t step, double relative) {
  StepDifference difference{step, step, step == 1 ? 0 : relative, "", {}};
  for (const std::string& name : {std::string("a.weight"), "b." + kScript}) {
    TensorDifference tensor{Compared::gradient, name,
                            relative > 0.1 ? Likeness::different : Likeness::equal, relative, 1e-5};
    tensor.ratio = 1 + relative;
    difference.tensors.push_back(tensor);
  }
  return difference;
}

ComparedPair literal_diff(double relative) {
  ComparedPair diff;
  diff.sides = {ComparedSide{"a", "torchrun a.py", "", 1, 20, {}},
                ComparedSide{"b", kScript, "", 2, 20, {}}};
  diff.matched = 2;
  for (std::int64_t step = 1; step <= 20; ++step) {
    diff.steps.push_back(difference_in(step, relative));
  }
  conclude(diff);
  return diff;
}

void write_pages(const std::filesystem::path& folder) {
  const auto write = [&](const std::string& name, const std::string& page) {
    write_text(folder / (name + ".html"), page);
  };
  write("cells", render_html(literal_run()));
  write("matrix", render_html(literal_matrix()));
  write("jobs", render_html(literal_jobs()));
  write("charts", render_html(charted_run()));
  write("hostile", render_html(nasty_run(kScript)));
  write("nasty", render_html(nasty_run()));
  write("findings", render_html(many_findings()));
  write("big", render_html(big_run()));
  write("wide", render_html(wide_run()));
  write("million", render_html(million_run()));
  write("empty", render_html(RunRecord{}));
  write("no-steps", render_html(literal_charted_job(literal_charts(2, 0, 0), 2)));
  write("one-rank", render_html(literal_charted_job(literal_charts(1, 1, 0), 1)));
  Comparison comparison;
  comparison.pairs = {literal_diff(0.5)};
  write("diff", render_html(run_with(comparison)));
  write("fixed", render_html(run_with(literal_fix(literal_diff(0.5), literal_diff(0)))));
}

}  // namespace
}  // namespace lockstep

int main(int, char** argv) {
  lockstep::write_pages(argv[1]);
  return 0;
}
