#include "harness/launch/python_on_path.h"

#include <sstream>
#include <vector>

#include "harness/launch/isolated_python.h"
#include "harness/launch/launcher.h"
#include "harness/launch/probe.h"

namespace lockstep {

namespace {

/// Its lines begin with our own words, because torch may print other lines.
constexpr const char* kQuestion = R"(
import os, platform
print("lockstep-python", platform.python_version(), flush=True)
try:
    import torch
    print("lockstep-torch", torch.__version__, os.path.dirname(torch.__file__))
except BaseException as error:
    print("lockstep-error", type(error).__name__ + ":", str(error).partition("\n")[0])
)";

constexpr const char* kQuestionOfExpression = R"(
import re, sys
try:
    re.compile(sys.argv[1])
except Exception as error:
    print("lockstep-error", error)
)";

std::string path_of_python() {
  const std::string path = find_installed_program("python3");
  return path.empty() ? find_installed_program("python") : path;
}

/// The text after `word` at the beginning of a line; empty if no line has it.
std::string told(const std::string& output, const std::string& word) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(word + " ")) return line.substr(word.size() + 1);
  }
  return {};
}

}  // namespace

PythonOnPath find_python(std::chrono::milliseconds limit) {
  PythonOnPath python;
  python.path = path_of_python();
  if (python.path.empty()) return python;
  const Probe asked = probe_program(isolated_python({python.path}, kQuestion), limit);
  const std::string version = told(asked.output, "lockstep-python");
  if (!version.empty()) python.version = "Python " + version;
  const std::string torch = told(asked.output, "lockstep-torch");
  if (!torch.empty()) {
    python.torch_version = torch.substr(0, torch.find(' '));
    python.torch_folder = torch.substr(python.torch_version.size() + 1);
    return python;
  }
  python.problem = told(asked.output, "lockstep-error");
  if (python.problem.empty()) python.problem = "the query of torch " + exit_in_words(asked.end);
  return python;
}

std::string fault_in_expression(const std::string& expression) {
  const std::string python = path_of_python();
  if (expression.empty() || python.empty()) return {};
  const std::vector<std::string> asked{python, "-ISc", kQuestionOfExpression, expression};
  return told(probe_program(asked, std::chrono::seconds(10)).output, "lockstep-error");
}

}  // namespace lockstep
