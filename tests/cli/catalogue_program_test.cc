// How `lockstep` finds the catalogue program and becomes it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/cli/start_variables.h"
#include "tests/cli/fake_catalogue.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

TEST(CatalogueProgram, GetsTheCommandLineAsItWasTyped) {
  const FakeCatalogue catalogue("for word; do echo \"<$word>\"; done");
  const Outcome outcome = catalogue.lockstep("run 'a b' --ranks 2 ''");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "<run>\n<a b>\n<--ranks>\n<2>\n<>\n");
  for (const char* command : {"list", "show", "run"}) {
    EXPECT_EQ(catalogue.lockstep(std::string(command) + " --help").out,
              fmt::format("<{}>\n<--help>\n", command));
  }
}

TEST(CatalogueProgram, PassesStatusVariablesAndSignalsThrough) {
  EXPECT_EQ(FakeCatalogue("exit 3").lockstep("run").status, 3);
  const FakeCatalogue says_rank("echo rank $RANK; cat");
  EXPECT_EQ(says_rank.lockstep("run", "echo input | RANK=5").out, "rank 5\ninput\n");
  const FakeCatalogue kills_itself("kill -TERM $$");
  EXPECT_EQ(kills_itself.lockstep("run").status, 128 + 15);
}

TEST(CatalogueProgram, IsBoundAtItsStartWithTheUsersVariablesFirst) {
  const FakeCatalogue catalogue("echo $LD_BIND_NOW $GLIBC_TUNABLES");
  EXPECT_EQ(catalogue.lockstep("run").out, "lockstep glibc.malloc.hugetlb=1\n");
  EXPECT_EQ(catalogue.lockstep("run", "LD_BIND_NOW=1 GLIBC_TUNABLES=glibc.malloc.perturb=1").out,
            "1 glibc.malloc.perturb=1\n");
}

TEST(StartVariables, AreRemovedUnlessAUserGaveThem) {
  ::setenv("LD_BIND_NOW", "1", /*overwrite=*/1);
  ::unsetenv("GLIBC_TUNABLES");
  set_start_variables();
  EXPECT_STREQ(std::getenv("GLIBC_TUNABLES"), "glibc.malloc.hugetlb=1");
  remove_start_variables();
  EXPECT_STREQ(std::getenv("LD_BIND_NOW"), "1");
  EXPECT_EQ(std::getenv("GLIBC_TUNABLES"), nullptr);
  ::unsetenv("LD_BIND_NOW");
}

TEST(CatalogueProgram, IsTheSameProcess) {
  const FakeCatalogue catalogue("echo $$");
  const Outcome outcome = run_shell("LOCKSTEP_CATALOGUE=" + catalogue.path().string() +
                                    " sh -c 'echo $$; exec " + kLockstep + " list'");
  const auto lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 2U) << outcome.err;
  EXPECT_EQ(lines[0], lines[1]) << "a launcher watches and signals the process that it started";
}

TEST(CatalogueProgram, OfAnotherVersionIsRefused) {
  const Outcome outcome = FakeCatalogue("echo ran", "9.8.7").lockstep("list");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              HasSubstr("belongs to Lockstep 9.8.7, but this is Lockstep " LOCKSTEP_VERSION));
}

TEST(CatalogueProgram, MustBeOne) {
  const FakeCatalogue catalogue("echo ran");
  const std::string version = LOCKSTEP_VERSION;
  const std::string word = "lockstep catalogue mark\n";
  for (const std::string& mark :
       {std::string("no mark"), word, word + "lockstep=" + version + "\n",
        word + "lockstep=" + version + "\ntorch=2\nlibrary=/x\n" + std::string(10'000, 'x'),
        "lockstep=" + version + "\ntorch=2\nlibrary=/x\n" + std::string(1, '\0')}) {
    catalogue.write("echo ran", mark);
    const Outcome outcome = catalogue.lockstep("list");
    EXPECT_EQ(outcome.status, 1) << mark;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("it is not a program with scenarios"));
  }
  // `lockstep` contains the mark, too, so it would start itself forever.
  const Outcome outcome = run_shell("LOCKSTEP_CATALOGUE=" + kLockstep + " " + kLockstep + " list");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("it is not a program with scenarios"));
}

TEST(CatalogueProgram, ThatCannotBeStartedIsNamed) {
  for (const auto& [path, why] :
       {std::pair("/nowhere/at-all", "No such file or directory"),
        std::pair("/", "it is not a file"), std::pair("/etc/passwd", "Permission denied")}) {
    const Outcome outcome =
        run_shell(fmt::format("LOCKSTEP_CATALOGUE={} {} run x", path, kLockstep));
    EXPECT_EQ(outcome.status, 1) << path;
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr(fmt::format("no catalogue of scenarios at {}: {}.", path, why)),
                      HasSubstr("LOCKSTEP_CATALOGUE")));
  }
}

/// Reading it would never end.
TEST(CatalogueProgram, ThatIsANamedPipeIsRefused) {
  const TemporaryFolder folder;
  const std::string pipe = (folder.path() / "pipe").string();
  const Outcome outcome = run_shell(
      fmt::format("mkfifo {0} && chmod 755 {0} && LOCKSTEP_CATALOGUE={0} timeout 20 {1} list", pipe,
                  kLockstep));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr(pipe + ": it is not a file."));
}

TEST(CatalogueProgram, InAFolderThatWasRemovedIsNotStarted) {
  const FakeCatalogue catalogue("echo ran");
  const Outcome outcome = catalogue.lockstep("list", "cd $(mktemp -d) && rmdir $PWD &&");
  EXPECT_EQ(outcome.status, 64);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("Cannot read the current folder"));
}

// Unreadable torch: the loader would end the catalogue before it could print anything.

TEST(TorchOfTheCatalogue, ThatIsMissingIsNamed) {
  const FakeCatalogue catalogue("echo ran");
  fs::remove(catalogue.torch());
  for (const char* arguments : {"list", "show x", "run --out x"}) {
    const Outcome outcome = catalogue.lockstep(arguments);
    EXPECT_EQ(outcome.status, 1) << arguments;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("torch cannot be read: " + catalogue.torch().string() +
                                             ": No such file"),
                                   HasSubstr("LOCKSTEP_PYTHON")));
  }
  EXPECT_EQ(catalogue.lockstep("--help").status, 0) << "which needs no torch";
  EXPECT_EQ(catalogue.lockstep("--version").out,
            "lockstep " LOCKSTEP_VERSION ", a catalogue that cannot be started\n");
}

TEST(TorchOfTheCatalogue, ThatThisUserMayNotReadIsNamed) {
  const FakeCatalogue catalogue("echo ran");
  fs::permissions(catalogue.torch(), fs::perms::none);
  fs::permissions(catalogue.path().parent_path(), fs::perms(0755));
  const std::string other = "setpriv --reuid 65534 --regid 65534 --clear-groups ";
  const Outcome outcome =
      run_shell(fmt::format("cd / && {}env LOCKSTEP_CATALOGUE={} {} list",
                            ::geteuid() == 0 ? other : "", catalogue.path().string(), kLockstep));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr(": Permission denied."));
  EXPECT_THAT(outcome.err, HasSubstr("torch cannot be read: "));
}

TEST(TorchOfTheCatalogue, OfAnotherReleaseIsRefused) {
  const FakeCatalogue catalogue("echo ran");
  for (const char* version : {"2.15.0+cu132", "2.1.0", "3.11.0"}) {
    write_text(catalogue.version_of_torch(),
               fmt::format("debug = False\n__version__ = '{}'\ncuda = '12.8'\n", version));
    const Outcome outcome = catalogue.lockstep("list");
    EXPECT_EQ(outcome.status, 1) << version;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("was built for torch 2.11, but the torch in "),
                      HasSubstr(fmt::format("torch is {}. Install torch 2.11 ", version))));
  }
  for (const char* text : {"__version__ = '2.11.3'\n", "x = 1\n__version__: str = \"2.11.0+cpu\"\n",
                           "no version\n", ""}) {
    write_text(catalogue.version_of_torch(), text);
    EXPECT_EQ(catalogue.lockstep("list").out, "ran\n") << text;
  }
}

/// As a wheel has it.
TEST(TorchOfTheCatalogue, MayBeNextToItsPackageOrWherePythonHasIt) {
  const FakeCatalogue catalogue("echo \"<$LD_LIBRARY_PATH>\"");
  const std::string script = "echo \"<$LD_LIBRARY_PATH>\"";
  catalogue.write(script, mark_of(LOCKSTEP_VERSION, "./torch/lib/libtorch_cpu.so"));
  const std::string unset = "unset LD_LIBRARY_PATH;";
  EXPECT_EQ(catalogue.lockstep("list", unset).out, "<>\n") << "it finds the one next to it itself";
  const FakeCatalogue other("");
  const std::string folder = other.torch().parent_path().string();
  const std::string elsewhere =
      "LOCKSTEP_TORCH_FOLDER=" + other.version_of_torch().parent_path().string();
  EXPECT_EQ(catalogue.lockstep("list", unset + elsewhere).out, "<" + folder + ">\n");
  EXPECT_EQ(catalogue.lockstep("list", "LD_LIBRARY_PATH=/x " + elsewhere).out,
            "<" + folder + ":/x>\n");
  EXPECT_THAT(catalogue.lockstep("doctor --timeout 5", unset + elsewhere).out,
              HasSubstr("<" + folder + ">"));
  write_text(other.version_of_torch(), "__version__ = '2.15.0'\n");
  EXPECT_THAT(catalogue.lockstep("list", elsewhere).err, HasSubstr("is 2.15.0"));
  fs::remove(other.torch());
  EXPECT_THAT(catalogue.lockstep("list", elsewhere).err,
              HasSubstr("torch cannot be read: " + folder + "/libtorch_cpu.so"));
  const FakeCatalogue built(script);
  EXPECT_EQ(built.lockstep("list", unset + elsewhere).out, "<>\n") << "a build has its own torch";
}

// doctor ------------------------------------------------------------------------------------------

TEST(DoctorOfTheProgram, AsksTheCatalogueForItsPart) {
  const FakeCatalogue catalogue("echo; echo the catalogue said: $1 $2");
  const Outcome outcome = catalogue.lockstep("doctor --timeout 5");
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("launchers"), HasSubstr("python"), HasSubstr("cores: "),
                                 HasSubstr("the catalogue said: doctor --ranks-only")));
  EXPECT_EQ(FakeCatalogue("exit 1").lockstep("doctor --timeout 5").status, 1);
}

TEST(DoctorOfTheProgram, OutlivesACatalogueThatCannotStart) {
  const FakeCatalogue catalogue("echo libtorch.so: undefined symbol >&2; exit 127");
  const Outcome outcome = catalogue.lockstep("doctor --timeout 5");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(unwrapped(outcome.out),
              AllOf(HasSubstr("cores: "), HasSubstr("'lockstep run' cannot work here: "),
                    HasSubstr("exited with status 127: libtorch.so: undefined symbol")));
  const Outcome killed = FakeCatalogue("kill -SEGV $$").lockstep("doctor --timeout 5");
  EXPECT_EQ(killed.status, 1);
  EXPECT_THAT(unwrapped(killed.out), HasSubstr("was killed by signal 11 (SIGSEGV)"));
}

TEST(DoctorOfTheProgram, SaysWhichTorchCannotBeRead) {
  const FakeCatalogue catalogue("echo ran");
  fs::remove(catalogue.torch());
  const Outcome outcome = catalogue.lockstep("doctor --timeout 5");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(unwrapped(outcome.out),
              HasSubstr("'lockstep run' cannot work here: torch cannot be read: "));
}

/// A copy of `lockstep` in an otherwise empty folder.
TEST(DoctorOfTheProgram, WithoutACatalogueSaysWhatWasNotTried) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "bin");
  const fs::path alone = folder.path() / "bin/lockstep";
  fs::copy_file(kLockstep, alone);
  const Outcome outcome =
      run_shell("unset LOCKSTEP_CATALOGUE; " + alone.string() + " doctor --timeout 5");
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_THAT(unwrapped(outcome.out), AllOf(HasSubstr("catalogue none: there is no "),
                                            HasSubstr("'lockstep run' was not tested")));
  EXPECT_EQ(run_shell("unset LOCKSTEP_CATALOGUE; " + alone.string() + " --version").out,
            "lockstep " LOCKSTEP_VERSION ", no catalogue\n");
}

/// A folder with one program in it, called `python3`.
Outcome doctor_with_python(const std::string& script) {
  const TemporaryFolder folder;
  write_text(folder.path() / "python3", "#!/bin/sh\n" + script + "\n");
  fs::permissions(folder.path() / "python3", fs::perms(0755));
  const FakeCatalogue catalogue("exit 0");
  Outcome outcome = catalogue.lockstep("doctor --timeout 1", "PATH=" + folder.path().string());
  outcome.out = unwrapped(outcome.out);
  return outcome;
}

TEST(DoctorOfTheProgram, BeginsWithTheConclusionOfTheCatalogue) {
  const FakeCatalogue catalogue("echo it can work; echo; echo torch 9");
  const std::string said = catalogue.lockstep("doctor --timeout 5").out;
  EXPECT_THAT(said, testing::StartsWith("it can work\n\nGPUs"));
  EXPECT_THAT(said, testing::EndsWith("\ntorch 9\n"));
  EXPECT_THAT(unwrapped(FakeCatalogue("exit 127").lockstep("doctor --timeout 5").out),
              testing::StartsWith("'lockstep run' cannot work here: "));
}

/// A prefix of a Python with a torch and its torchrun, which is not on PATH.
class PythonWithTorch : public testing::Test {
 protected:
  PythonWithTorch() {
    fs::create_directories(torch() / "lib");
    fs::create_directories(bin());
    write_text(torch() / "lib/libtorch_cpu.so", "");
    write_text(bin() / "torchrun", "#!/bin/sh\necho torch 2.5.1\n");
    fs::permissions(bin() / "torchrun", fs::perms(0755));
  }
  fs::path bin() const { return folder_.path() / "a venv/bin"; }
  fs::path torch() const { return folder_.path() / "a venv/lib/python3.12/site-packages/torch"; }
  std::string wanted() const {
    return fmt::format(
        "torchrun: not on PATH\n             remedy:\n"
        "             export PATH='{}':$PATH\n",
        bin().string());
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(PythonWithTorch, OfTheCatalogueIsPutOnPathByTheLineThatDoctorSays) {
  const FakeCatalogue catalogue("exit 0");
  catalogue.write("exit 0", mark_of(LOCKSTEP_VERSION, torch() / "lib/libtorch_cpu.so"));
  const std::string said = catalogue.lockstep("doctor --timeout 5", "PATH=/nowhere").out;
  EXPECT_THAT(said, HasSubstr(wanted()));
  const std::string line = fmt::format("export PATH='{}':$PATH;", bin().string());
  EXPECT_THAT(unwrapped(catalogue.lockstep("doctor --timeout 5", line).out),
              HasSubstr("torchrun: torch 2.5.1, "));
}

TEST_F(PythonWithTorch, OfThePythonOnPathToo) {
  const TemporaryFolder other;
  write_text(other.path() / "python3",
             fmt::format("#!/bin/sh\necho lockstep-python 3.12.1\necho lockstep-torch 2.5.1 '{}'\n",
                         torch().string()));
  fs::permissions(other.path() / "python3", fs::perms(0755));
  EXPECT_THAT(
      FakeCatalogue("exit 0").lockstep("doctor --timeout 5", "PATH=" + other.path().string()).out,
      HasSubstr(wanted()));
}

TEST_F(PythonWithTorch, WithoutTorchrunIsNoHelp) {
  fs::remove(bin() / "torchrun");
  const FakeCatalogue catalogue("exit 0");
  catalogue.write("exit 0", mark_of(LOCKSTEP_VERSION, torch() / "lib/libtorch_cpu.so"));
  EXPECT_THAT(unwrapped(catalogue.lockstep("doctor --timeout 5", "PATH=/nowhere").out),
              HasSubstr("torchrun: not on PATH remedy: pip install torch"));
}

TEST(DoctorOfTheProgram, AsksThePythonOnPathForItsTorch) {
  EXPECT_THAT(doctor_with_python("echo a warning; echo lockstep-python 3.12.1; "
                                 "echo lockstep-torch 2.5.1+cu124 /opt/env/torch")
                  .out,
              HasSubstr("torch 2.5.1+cu124, /opt/env/torch"));
  EXPECT_THAT(doctor_with_python("echo lockstep-python 3.12.1; "
                                 "echo \"lockstep-error ModuleNotFoundError: No module named "
                                 "'torch'\"")
                  .out,
              AllOf(HasSubstr("python Python 3.12.1, "),
                    HasSubstr("torch: ModuleNotFoundError: No module named 'torch' remedy")));
  EXPECT_THAT(doctor_with_python("exec /bin/sleep 60").out,
              HasSubstr("did not finish within its limit of 1 s"));
  EXPECT_THAT(doctor_with_python("kill -ABRT $$").out, HasSubstr("was killed by signal 6"));
  EXPECT_THAT(
      unwrapped(FakeCatalogue("exit 0").lockstep("doctor --timeout 1", "PATH=/nowhere").out),
      HasSubstr("python not on PATH"));
}

}  // namespace
}  // namespace lockstep
