#include "harness/cli/settings_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/command.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class WatchSettings : public testing::Test {
 protected:
  auto read(const std::string& text) const {
    write_text(file_, text);
    return read_watch_settings(file_);
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / kWatchSettings;
};

TEST_F(WatchSettings, AreThoseOfTheirSection) {
  EXPECT_THAT(read("# ours\n[watch]\nevery = 10 # steps\nlabel = 'a b'\n"),
              ElementsAre(Pair("every", ElementsAre("10")), Pair("label", ElementsAre("a b"))));
  EXPECT_THAT(read(""), IsEmpty());
  EXPECT_THAT(refusal_of(file_, [&] { read("every = 1\n[watch]\n"); }), HasSubstr("every"));
  EXPECT_THAT(refusal_of(file_, [&] { read("[watch.more]\nevery = 3\n"); }),
              HasSubstr("watch.more"));
  EXPECT_THAT(refusal_of(file_, [&] { read("[watch]\nmore.every = 3\n"); }),
              HasSubstr("watch.more"));
  EXPECT_THAT(refusal_of(file_, [&] { read("[watch]\nevrey = 10\n"); }), HasSubstr("'every'"));
  EXPECT_THAT(refusal_of(file_, [&] { read("[watch]\nevery = [1, 2]\n"); }), HasSubstr("every"));
}

TEST_F(WatchSettings, OfAnotherSectionMayHaveLists) {
  const SettingsSection section{"validate", {"range", "set"}, {"set"}};
  write_text(file_, "[validate]\nrange = \"a..b\"\nset = [\"x=1,2\", \"y=3\"]\n");
  EXPECT_THAT(read_settings(file_, section), ElementsAre(Pair("range", ElementsAre("a..b")),
                                                         Pair("set", ElementsAre("x=1,2", "y=3"))));
  write_text(file_, "[validate]\nrange = [\"a\", \"b\"]\n");
  EXPECT_THAT(refusal_of(file_, [&] { read_settings(file_, section); }), HasSubstr("range"));
  write_text(file_, "[validate]\nrnage = 1\n");
  EXPECT_THAT(refusal_of(file_, [&] { read_settings(file_, section); }), HasSubstr("'range'"));
}

/// In linear time, and without a list of all of them.
TEST_F(WatchSettings, OfASectionWithinManyOthersAreRefused) {
  std::string deep = "[a";
  for (int level = 0; level < 30'000; ++level) deep += ".a";
  EXPECT_THAT(refusal_of(file_, [&] { read(deep + "]\nx = 1\n[watch]\nevery = 10\n"); }),
              HasSubstr("a.a.a"));
  EXPECT_THAT(refusal_of(file_, [&] { read(std::string(70'000, '\n')); }), HasSubstr("65536"));
}

}  // namespace
}  // namespace lockstep
