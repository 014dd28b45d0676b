#include "harness/validate/code_states.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>

#include "harness/launch/probe.h"
#include "reports/base/error.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

bool is_interpreter(const fs::path& path) {
  std::error_code missing;
  return path.filename().string().starts_with("python") && fs::is_regular_file(path, missing) &&
         ::access(path.c_str(), X_OK) == 0;
}

/// A program of Python that makes an environment, argv[1], which has the packages of its own one,
/// but nothing that is installed editable there from the checkout, argv[2].
constexpr const char* kNewEnvironment = R"(
import os, sys, sysconfig, venv
made, checkout = sys.argv[1], os.path.join(os.path.realpath(sys.argv[2]), "")
inherited = [path for path in sys.path if path.endswith("-packages")
             or not path.startswith((checkout, sys.base_prefix))]
venv.EnvBuilder(with_pip=True).create(made)
inner = sysconfig.get_path("purelib", vars={"base": made, "platbase": made})
with open(os.path.join(inner, "packages_of_parent.pth"), "w") as file:
    file.writelines(os.path.realpath(path) + "\n" for path in inherited if os.path.isdir(path))
)";

/// Lets commands run in an environment of Python: its programs come first.
void enter(const fs::path& environment, CodeState& state) {
  const char* const path = std::getenv("PATH");
  state.environment = environment;
  state.variables = {
      {"PATH", fmt::format("{}:{}", (environment / "bin").string(), path ? path : "")},
      {"VIRTUAL_ENV", environment.string()}};
}

/// What a state may be here.
std::string states_in_words(const std::optional<Repository>& repository) {
  const std::string others = "a folder, or a python of an environment";
  if (!repository) return others + ": this is no repository";
  if (!repository->is_shallow()) return "a commit of this repository, " + others;
  return "a commit that this shallow clone has (git fetch --unshallow brings all), " + others;
}

}  // namespace

CodeStates::CodeStates(StateOptions options)
    : options_(std::move(options)),
      here_(fs::canonical(fs::current_path())),
      repository_(Repository::around(here_, scratch_.path())) {}

CodeStates::~CodeStates() {
  for (const fs::path& folder : worktrees_) repository_->remove_worktree(folder);
}

CodeState CodeStates::open(const std::string& named) {
  CodeState state;
  state.title = named;
  state.top = repository_ ? repository_->top() : here_;
  state.folder = here_;
  const std::string commit = repository_ ? repository_->commit_called(named) : "";
  if (!commit.empty()) {
    state = open_commit(named, commit);
  } else if (is_interpreter(named)) {
    // Not resolved: the python of an environment is a link to that of the system.
    enter(fs::absolute(named).lexically_normal().parent_path().parent_path(), state);
  } else if (fs::is_directory(named)) {
    state.top = state.folder = fs::canonical(named);
    const auto own = Repository::around(state.folder, scratch_.path());
    if (own) state.top = own->top();
  } else {
    throw bad_value("STATE", named, states_in_words(repository_));
  }
  if (!options_.build.empty()) build(state);
  state.sources = {state.top.string()};
  const std::string checkout = (repository_ ? repository_->top() : here_).string();
  if (checkout != state.sources[0]) state.sources.push_back(checkout);
  if (!state.environment.empty()) state.sources.push_back(state.environment.string());
  return state;
}

CodeState CodeStates::open_commit(const std::string& named, const std::string& commit) {
  CodeState state;
  const std::string abbreviated = commit.substr(0, 9);
  state.title =
      commit.starts_with(named) ? abbreviated : fmt::format("{} ({})", named, abbreviated);
  state.commit = commit;
  state.top = scratch_.path() / fmt::format("state-{}", ++count_);
  worktrees_.push_back(state.top);
  repository_->add_worktree(state.top, commit);
  bring(state);
  state.folder = state.top / fs::relative(here_, repository_->top());
  if (!fs::is_directory(state.folder)) {
    throw bad_value("STATE", named,
                    fmt::format("a commit that has the working folder, {}",
                                fs::relative(here_, repository_->top()).string()));
  }
  return state;
}

void CodeStates::bring(const CodeState& state) const {
  for (const std::string& path : options_.with) {
    const fs::path from = here_ / path;
    const fs::path inside = fs::relative(fs::weakly_canonical(from), repository_->top());
    if (!fs::exists(from) || inside.string().starts_with("..")) {
      throw bad_value("--with", path, "a file or a folder of this checkout");
    }
    std::error_code failure;
    fs::create_directories((state.top / inside).parent_path(), failure);
    fs::copy(from, state.top / inside,
             fs::copy_options::recursive | fs::copy_options::copy_symlinks |
                 fs::copy_options::overwrite_existing,
             failure);
    if (failure) {
      throw Error(Error::Kind::usage,
                  fmt::format("{} cannot be brought into a state: {}.", path, failure.message()));
    }
  }
}

void CodeStates::build(CodeState& state) {
  const fs::path environment = scratch_.path() / fmt::format("environment-{}", ++count_);
  const fs::path log = scratch_.path() / "build.log";
  const std::string python =
      state.environment.empty() ? "python3" : (state.environment / "bin" / "python3").string();
  ProgramOutput made = run_program({python, "-I", "-c", kNewEnvironment, environment.string(),
                                    repository_ ? repository_->top().string() : here_.string()},
                                   here_, log);
  if (made.is_good()) {
    enter(environment, state);
    const std::string command =
        fmt::format("PATH='{}':$PATH VIRTUAL_ENV='{}'; export PATH VIRTUAL_ENV; {}",
                    (environment / "bin").string(), environment.string(), options_.build);
    made = run_program({"/bin/sh", "-c", command}, state.folder, log);
  }
  if (made.is_good()) return;
  throw Error(Error::Kind::usage,
              fmt::format("{} cannot be built (status {}): {}. Try the command of --build in that "
                          "state.",
                          state.title, made.status, first_line(made.text)));
}

std::optional<std::vector<std::string>> CodeStates::changed(const CodeState& before,
                                                            const CodeState& after) const {
  if (before.commit.empty() || after.commit.empty()) return std::nullopt;
  return repository_->changed(before.commit, after.commit);
}

}  // namespace lockstep
