// Judges the run in a folder and prints how many of its cells are as expected.

#include <algorithm>
#include <cstdio>
#include <exception>

#include "harness/record/run_folder.h"
#include "harness/verdict/judge_run.h"
#include "reports/record/result.h"

int main(int argc, char** argv) {
  try {
    lockstep::RunRecord run = lockstep::load_record(argc > 1 ? argv[1] : "");
    lockstep::judge_run(run, argv[1]);
    const auto count = std::count_if(run.cells.begin(), run.cells.end(), [](const auto& cell) {
      return lockstep::result_of(cell) == lockstep::Result::as_expected;
    });
    std::printf("%d of %zu cells are as expected\n", static_cast<int>(count), run.cells.size());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
