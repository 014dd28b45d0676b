// The library paths of a build's programs, and their messages if torch cannot be read.

#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/command.h"
#include "tests/programs.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const fs::path kBuild = LOCKSTEP_BUILD;

bool is_program_or_library(const fs::path& file) {
  Elf64_Ehdr header{};
  std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof(header));
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_type != ET_REL;
}

std::vector<fs::path> programs_and_libraries() {
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(kBuild), end; entry != end; ++entry) {
    if (entry->path().filename() == "CMakeFiles") entry.disable_recursion_pending();
    if (entry->is_regular_file() && is_program_or_library(entry->path())) {
      files.push_back(entry->path());
    }
  }
  return files;
}

/// The text in brackets in the lines of `readelf -d` with `tag`.
std::vector<std::string> dynamic_entries(const fs::path& file, const std::string& tag) {
  std::vector<std::string> values;
  for (const std::string& line : lines_of(run_shell("readelf -d " + file.string()).out)) {
    const auto begin = line.find('[');
    if (line.find("(" + tag + ")") == line.npos || begin == line.npos) continue;
    values.push_back(line.substr(begin + 1, line.rfind(']') - begin - 1));
  }
  return values;
}

/// From RUNPATH and RPATH, in the loader's search order.
std::vector<std::string> library_folders(const fs::path& file) {
  std::vector<std::string> folders;
  for (const char* const tag : {"RUNPATH", "RPATH"}) {
    for (const std::string& list : dynamic_entries(file, tag)) {
      for (std::size_t begin = 0, end = 0; end != list.npos; begin = end + 1) {
        end = list.find(':', begin);
        folders.push_back(list.substr(begin, end - begin));
      }
    }
  }
  return folders;
}

// The loader takes an empty entry for the working folder.
TEST(Libraries, AreLookedForInAbsoluteFoldersOnly) {
  const std::vector<fs::path> files = programs_and_libraries();
  EXPECT_THAT(files, Contains(fs::path(LOCKSTEP_CATALOGUE)));
  EXPECT_THAT(files, Contains(fs::path(kLockstep)));
  for (const fs::path& file : files) {
    for (const std::string& folder : library_folders(file)) {
      EXPECT_THAT(folder, testing::StartsWith("/")) << file;
    }
  }
}

TEST(Libraries, OfTorchAreFoundByThePrograms) {
  EXPECT_THAT(library_folders(fs::path(LOCKSTEP_CATALOGUE)), Not(IsEmpty()));
}

TEST(Libraries, InTheWorkingFolderAreNotLoaded) {
  const TemporaryFolder folder;
  for (const fs::path& program : {fs::path(kLockstep), fs::path(LOCKSTEP_CATALOGUE)}) {
    for (const std::string& library : dynamic_entries(program, "NEEDED")) {
      fs::copy_file(LOCKSTEP_PLANTED, folder.path() / library,
                    fs::copy_options::overwrite_existing);
    }
  }
  ASSERT_TRUE(fs::exists(folder.path() / "libfmt.so.9") ||
              fs::exists(folder.path() / "libpugixml.so.1"));
  const Outcome outcome =
      run_shell("cd " + folder.path().string() + " && " + kLockstep + " --version");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::StartsWith("lockstep "));
  EXPECT_EQ(lines_of(outcome.out).size(), 1U) << outcome.out;
}

}  // namespace
}  // namespace lockstep
