#include "reports/base/regular_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FileToRead : public testing::Test {
 protected:
  std::string refusal() const {
    try {
      read_text(path_, kLargestRecord);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::usage);
      return error.what();
    }
    return "accepted";
  }

  TemporaryFolder folder_;
  fs::path path_ = folder_.path() / "record.json";
};

TEST_F(FileToRead, IsReadWholeAndInParts) {
  const std::string text("a\0b\n", 4);
  std::ofstream(path_, std::ios::binary) << text;
  EXPECT_EQ(read_text(path_, 4), text);
  const RegularFile file(path_, 4);
  EXPECT_EQ(file.size(), 4U);
  EXPECT_EQ(file.read(1, 2), std::string("\0b", 2));
  EXPECT_EQ(file.read(4, 0), "");
}

TEST_F(FileToRead, MayBeALink) {
  std::ofstream(folder_.path() / "elsewhere") << "text";
  fs::create_symlink(folder_.path() / "elsewhere", path_);
  EXPECT_EQ(read_text(path_, 4), "text");
}

TEST_F(FileToRead, IsNoPipe) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0666), 0);
  EXPECT_THAT(refusal(), HasSubstr("it is a named pipe, and only regular files are read"));
}

TEST_F(FileToRead, IsNoDevice) {
  fs::create_symlink("/dev/zero", path_);
  EXPECT_THAT(refusal(), HasSubstr("it is a device, and only regular files are read"));
}

TEST_F(FileToRead, IsNoFolder) {
  fs::create_directory(path_);
  EXPECT_THAT(refusal(), HasSubstr("it is a folder, and only regular files are read"));
}

TEST_F(FileToRead, IsNoLargerThanItsKindMayBe) {
  std::ofstream(path_) << "{}";
  fs::resize_file(path_, 20 * 1024 * kMebibyte);  // sparse
  EXPECT_THAT(refusal(),
              HasSubstr("it has 21474836480 bytes, and such a file has 1073741824 at most"));
}

TEST_F(FileToRead, IsThere) { EXPECT_THAT(refusal(), HasSubstr("No such file or directory")); }

}  // namespace
}  // namespace lockstep
