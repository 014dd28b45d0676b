// Whatever lies in the working folder, none of it runs: neither as a module of Python nor as a part
// of Lockstep nor as a program that nobody named.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/fake_catalogue.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

class WorkingFolder : public testing::Test {
 protected:
  WorkingFolder() {
    fs::create_directory(work());
    fs::create_directory(ran());
    for (const char* module : {"platform",      "json",          "os",       "site",
                               "sitecustomize", "usercustomize", "re",       "enum",
                               "types",         "encodings",     "io",       "abc",
                               "codecs",        "importlib",     "torch",    "lockstep",
                               "subprocess",    "ctypes",        "typing",   "random",
                               "struct",        "string",        "warnings", "collections"}) {
      plant_module(fs::path(module).concat(".py"), module);
      plant_module(fs::path(module) / "__init__.py", module);
    }
    plant_module("share/lockstep/python/start/sitecustomize.py", "hook");
    plant_module("share/lockstep/python/_lockstep/__init__.py", "package");
    plant_module("torch-2.11.0.dist-info/METADATA", "metadata");
    for (const char* program : {"python", "python3", "torchrun", "mpirun", "srun", "nvidia-smi",
                                "libexec/lockstep/lockstep-catalogue", "bin/python3"}) {
      plant_program(program);
    }
    write("lib/lockstep/liblockstep_watch.so", "no library");
    write("lib/libtorch_cpu.so", "no library");
  }

  fs::path work() const { return folder_.path() / "work"; }
  fs::path ran() const { return folder_.path() / "ran"; }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((work() / file).parent_path());
    write_text(work() / file, text);
  }
  /// Leaves a file where it is seen that it ran.
  void plant_module(const fs::path& file, const std::string& name) const {
    write(file, fmt::format("open('{}/{}', 'w').close()\n", ran().string(), name));
  }
  void plant_program(const fs::path& file) const {
    write(file, fmt::format("#!/bin/sh\n: >'{}/{}'\n{}", ran().string(), file.filename().string(),
                            "exit\n" + mark_of(LOCKSTEP_VERSION, work() / "lib/libtorch_cpu.so")));
    fs::permissions(work() / file, fs::perms(0755));
  }

  Outcome in_it(const std::string& program, const std::string& arguments,
                const std::string& before = "") const {
    return run_shell("cd " + work().string() + " && " + before + " " + program + " " + arguments);
  }
  /// What ran since the last call.
  std::vector<std::string> what_ran() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(ran())) {
      names.push_back(entry.path().filename());
      fs::remove(entry.path());
    }
    return names;
  }

 private:
  TemporaryFolder folder_;
};

const std::vector<std::string> kEnvironments{"",
                                             "PATH=:$PATH",
                                             "PATH=.:$PATH",
                                             "PATH=bin:$PATH",
                                             "PYTHONPATH=:",
                                             "PYTHONPATH=.:x",
                                             "PYTHONPATH=$PWD",
                                             "PYTHONPATH=$PWD/./:share/lockstep/python/start",
                                             "LD_LIBRARY_PATH=: LOCKSTEP_TORCH_FOLDER=torch"};

TEST_F(WorkingFolder, OfThePlantedFilesAllWouldRun) {
  in_it("/usr/bin/python3", "-c 'import platform, torch'");
  in_it("PATH=. python3", "");
  EXPECT_THAT(what_ran(), testing::IsSupersetOf({"platform", "torch", "python3"}));
}

TEST_F(WorkingFolder, RunsNothingOfIt) {
  for (const std::string& environment : kEnvironments) {
    for (const char* arguments :
         {"doctor --timeout 30", "--version", "watch --ignore x --out ran/w -- true", "list",
          "report .", "runs", "explain", "show x", "pack .", "diff . .", "--complete x"}) {
      in_it(kLockstep, arguments, environment);
      EXPECT_THAT(what_ran(), IsEmpty()) << environment << " " << arguments;
    }
    fs::remove_all(work() / "ran");
  }
}

/// Some clusters have torch there.
TEST_F(WorkingFolder, DoesNotHideThePackagesOfOtherFolders) {
  const TemporaryFolder packages;
  fs::create_directory(packages.path() / "torch");
  write_text(packages.path() / "torch/__init__.py", "__version__ = '9.9.9'\n");
  const Outcome outcome =
      in_it(kLockstep, "doctor --timeout 30", "PYTHONPATH=:" + packages.path().string() + ":$PWD");
  EXPECT_THAT(outcome.out, HasSubstr("torch 9.9.9"));
  EXPECT_THAT(what_ran(), IsEmpty());
}

/// There is no installation around it.
TEST_F(WorkingFolder, RunsNothingOfItForAProgramThatWasCopiedAlone) {
  for (const char* place : {"program", "tools/program", "a/b/program"}) {
    fs::create_directories((work() / place).parent_path());
    run_shell("cp " + kLockstep + " " + (work() / place).string());
    for (const char* arguments : {"watch --out out -- /usr/bin/python3 -c pass", "list",
                                  "doctor --timeout 30", "--version"}) {
      const Outcome outcome = in_it("./" + std::string(place), arguments);
      EXPECT_THAT(what_ran(), IsEmpty()) << place << " " << arguments << outcome.out << outcome.err;
      if (std::string(arguments).starts_with("watch")) {
        EXPECT_EQ(outcome.status, 64);
        EXPECT_THAT(outcome.err,
                    HasSubstr("'watch' needs share/lockstep/python/start, which is not there"));
      }
    }
    fs::remove(work() / place);
  }
}

}  // namespace
}  // namespace lockstep
