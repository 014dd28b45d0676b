#include "harness/pack/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harness/pack/gzip_reader.h"
#include "reports/base/error.h"
#include "tests/command.h"
#include "tests/full_disk.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A member of an archive that somebody else wrote.
struct Member {
  std::string name;
  std::string text = "text";
  unsigned type = AE_IFREG;
  std::string target = {};  ///< of a link
  bool is_hard_link = false;
};

void add_member(archive* out, const Member& member) {
  archive_entry* const entry = archive_entry_new();
  archive_entry_set_pathname(entry, member.name.c_str());
  archive_entry_set_filetype(entry, member.type);
  archive_entry_set_perm(entry, 0644);
  const bool is_link = !member.target.empty();
  if (is_link && member.is_hard_link) archive_entry_set_hardlink(entry, member.target.c_str());
  if (is_link && !member.is_hard_link) archive_entry_set_symlink(entry, member.target.c_str());
  const bool has_text = member.type == AE_IFREG && !is_link;
  archive_entry_set_size(entry, has_text ? static_cast<la_int64_t>(member.text.size()) : 0);
  archive_write_header(out, entry);
  if (has_text) archive_write_data(out, member.text.data(), member.text.size());
  archive_entry_free(entry);
}

class Archive : public testing::Test {
 protected:
  fs::path file() const { return place_.path() / "run.tar.gz"; }
  fs::path target() const { return place_.path() / "unpacked"; }

  void write(const std::vector<Member>& members, bool is_compressed = true) const {
    archive* const out = archive_write_new();
    if (is_compressed) archive_write_add_filter_gzip(out);
    archive_write_set_format_pax(out);
    archive_write_open_filename(out, file().c_str());
    for (const Member& member : members) add_member(out, member);
    archive_write_close(out);
    archive_write_free(out);
  }

  /// Why the archive is refused.
  std::string refusal(const ArchiveLimits& limits = {}, const IsWanted& is_wanted = {}) const {
    fs::remove_all(target());
    fs::create_directory(target());
    return refusal_of("Cannot read " + file().string(),
                      [&] { unpack(file(), target(), limits, is_wanted); });
  }

  TemporaryFolder place_;
};

TEST_F(Archive, IsReadAsItWasWritten) {
  const std::string large(3'000'000, 'x');
  write_text(place_.path() / "large", large);
  ArchiveWriter writer(file());
  writer.add_text("run/record.json", "{}");
  writer.add_file("run/job/rank-0.csv", place_.path() / "large");
  writer.add_text("run/empty", "");
  writer.finish();
  fs::create_directory(target());
  const fs::path folder = unpack(file(), target());
  EXPECT_EQ(folder, target() / "run");
  EXPECT_EQ(text_of(folder / "record.json"), "{}");
  EXPECT_EQ(text_of(folder / "job/rank-0.csv"), large);
  EXPECT_EQ(text_of(folder / "empty"), "");
}

/// Otherwise no reader would take it.
TEST_F(Archive, HasNoMoreContentThanItsReaderTakes) {
  const std::string zeros(20'000'000, '\0');
  ArchiveWriter writer(file());
  writer.add_text("run/zeros", zeros);
  writer.finish();
  EXPECT_GT(most_content(fs::file_size(file())), zeros.size());
  EXPECT_LT(fs::file_size(file()), zeros.size() / 7);
  EXPECT_FALSE(fs::exists(file().string() + ".part"));
  fs::create_directory(target());
  EXPECT_EQ(text_of(unpack(file(), target()) / "zeros"), zeros);
}

TEST_F(Archive, WhoseContentTakesNoRoomIsRefusedBeforeItTakesMore) {
  std::vector<Member> members{{"run/record.json", "{}"}};
  for (int i = 0; i < 20; ++i) {
    members.push_back({"run/job/rank-" + std::to_string(i) + ".csv", std::string(1 << 20, '\0')});
  }
  write(members);
  EXPECT_THAT(refusal(), HasSubstr("it unpacks to more than"));
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(target())) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  EXPECT_LE(bytes, most_content(fs::file_size(file())));
  // What nobody wants is not written, and yet read: the checksum is behind it.
  EXPECT_THAT(refusal({}, [](const fs::path&) { return false; }),
              HasSubstr("it unpacks to more than"));
}

TEST_F(Archive, IsUnpackedAsFarAsItIsWanted) {
  write(
      {{"run/a", "1"}, {"run/job/b", "2"}, {"run/other/deep/c", "3"}, {"run/empty", "", AE_IFDIR}});
  fs::create_directory(target());
  const fs::path folder =
      unpack(file(), target(), {}, [](const fs::path& member) { return member == "job/b"; });
  EXPECT_EQ(text_of(folder / "job/b"), "2");
  EXPECT_EQ(run_shell("cd " + folder.string() + " && find . -mindepth 1 | sort").out,
            "./job\n./job/b\n");
  EXPECT_EQ(read_member(file(), "other/deep/c"), "3");
  EXPECT_EQ(read_member(file(), "c"), std::nullopt);
}

TEST_F(Archive, IsOneThatTarReadsAndTheSameEachTime) {
  for (const char* name : {"a", "b"}) {
    ArchiveWriter writer(place_.path() / name);
    writer.add_text("run/record.json", "{}");
    writer.finish();
  }
  EXPECT_EQ(text_of(place_.path() / "a"), text_of(place_.path() / "b"));
  const Outcome listed = run_shell("tar tzf " + (place_.path() / "a").string());
  EXPECT_EQ(listed.out, "run/record.json\n") << listed.err;
}

TEST_F(Archive, KeepsNamesWhateverTheirBytesAre) {
  const std::string utf8 = "l\xc3\xa4uft", latin = "l\xe4uft";
  ArchiveWriter writer(file());
  for (const std::string& name : {utf8, latin}) writer.add_text(utf8 + "/" + name, name);
  writer.finish();
  fs::create_directory(target());
  const fs::path folder = unpack(file(), target());
  EXPECT_EQ(folder, target() / utf8);
  for (const std::string& name : {utf8, latin}) EXPECT_EQ(text_of(folder / name), name);
  EXPECT_EQ(run_shell("tar --quoting-style=literal -tzf " + file().string()).out,
            utf8 + "/" + utf8 + "\n" + utf8 + "/" + latin + "\n");
}

TEST_F(Archive, WithOtherNamesThanAsciiIsRefusedIfAMemberLeadsOutOfIt) {
  ArchiveWriter writer(file());
  writer.add_text("../l\xe4uft", "text");
  writer.finish();
  EXPECT_THAT(refusal(), HasSubstr("leads out of it"));
}

TEST_F(Archive, ReplacesNoFile) {
  write_text(file(), "mine");
  EXPECT_EQ(refusal_of("Cannot write " + file().string(), [&] { ArchiveWriter writer(file()); }),
            ": it exists, and a pack never replaces a file. Name another file with --out.");
  EXPECT_EQ(text_of(file()), "mine");
}

TEST_F(Archive, ThatIsNotFinishedIsRemoved) {
  {
    ArchiveWriter writer(file());
    writer.add_text("run/record.json", "{}");
  }
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(Archive, OnAFullDiskIsRefusedAndRemoved) {
  std::string noise;
  for (std::uint32_t i = 0, bits = 1; i < 300'000; ++i) {
    bits = bits * 1664525 + 1013904223;
    noise += static_cast<char>(bits >> 24);
  }
  const FullDisk disk(50'000);
  EXPECT_THAT(refusal_of("",
                         [&] {
                           ArchiveWriter writer(file());
                           writer.add_text("run/noise", noise);
                           writer.finish();
                         }),
              HasSubstr("Cannot write " + file().string() + ": "));
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(Archive, LargerThanOneThatIsReadIsNotWritten) {
  ArchiveLimits limits;
  limits.bytes = 10;
  ArchiveWriter writer(file(), limits);
  writer.add_text("run/a", "12345");
  EXPECT_THAT(refusal_of("", [&] { writer.add_text("run/b", "123456"); }),
              HasSubstr("larger than a pack may be"));
}

TEST_F(Archive, IsRefusedIfAMemberLeadsOutOfIt) {
  for (const char* name : {"/tmp/planted", "../planted", "run/../../planted", "..", "run/\n"}) {
    write({{"run/record.json"}, {name}});
    EXPECT_THAT(refusal(), AllOf(HasSubstr("leads out of it"), Not(HasSubstr("\n")))) << name;
  }
  EXPECT_FALSE(fs::exists(place_.path() / "planted"));
}

TEST_F(Archive, IsRefusedIfAMemberIsALinkOrADevice) {
  const std::vector<Member> hostile{{"run/link", "", AE_IFLNK, "/etc/passwd"},
                                    {"run/hard", "", AE_IFREG, "/etc/passwd", true},
                                    {"run/pipe", "", AE_IFIFO},
                                    {"run/device", "", AE_IFCHR}};
  for (const Member& member : hostile) {
    write({{"run/record.json"}, member});
    EXPECT_THAT(refusal(), HasSubstr("is neither a file nor a folder")) << member.name;
  }
}

TEST_F(Archive, IsRefusedIfAMemberIsThereTwice) {
  write({{"run/a", "1"}, {"run/./a", "2"}});
  EXPECT_THAT(refusal(), HasSubstr("its member 'run/a' is there twice"));
}

TEST_F(Archive, IsRefusedIfItsMembersLieInSeveralFolders) {
  write({{"run/a"}, {"other/a"}});
  EXPECT_THAT(refusal(), HasSubstr("several folders"));
}

TEST_F(Archive, IsRefusedIfItUnpacksToMoreThanTheLimits) {
  write({{"run/a", std::string(3000, '\0')}, {"run/b", std::string(3000, '\0')}});
  EXPECT_EQ(refusal(), "accepted");
  EXPECT_THAT(refusal({5000, 4000, 10}), HasSubstr("it unpacks to more than"));
  EXPECT_THAT(refusal({9000, 2000, 10}), HasSubstr("it unpacks to more than"));
  EXPECT_THAT(refusal({9000, 4000, 1}), HasSubstr("it holds more than 1 files"));
}

TEST_F(Archive, IsRefusedIfItIsCutOffAnywhere) {
  ArchiveWriter writer(file());
  for (int i = 0; i < 20; ++i) writer.add_text("run/" + std::to_string(i), "text");
  writer.finish();
  const std::string whole = text_of(file());
  for (std::size_t size = whole.size() % 3; size < whole.size(); size += 3) {
    write_text(file(), whole.substr(0, size));
    EXPECT_NE(refusal(), "accepted") << size;
  }
  EXPECT_THAT(refusal(), HasSubstr("it is damaged: it was cut off"));
}

TEST_F(Archive, IsRefusedIfItsChecksumOrItsLengthIsAnother) {
  write({{"run/record.json"}});
  const std::string whole = text_of(file());
  for (std::size_t at = whole.size() - 8; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    write_text(file(), damaged);
    EXPECT_THAT(refusal(), HasSubstr("it is damaged: its content has another checksum")) << at;
  }
}

TEST_F(Archive, IsRefusedIfBytesFollowIt) {
  write({{"run/record.json"}});
  const std::string whole = text_of(file());
  for (const std::string& more : {std::string("garbage"), whole, std::string(1000, '\0')}) {
    write_text(file(), whole + more);
    EXPECT_THAT(refusal(), HasSubstr(std::to_string(more.size()) + " bytes follow its end"));
  }
}

TEST_F(Archive, IsRefusedIfAMemberLiesTooDeep) {
  std::string deep = "run";
  for (int i = 0; i < 62; ++i) deep += "/d";
  write({{deep + "/file"}});
  EXPECT_EQ(refusal(), "accepted");
  write({{deep + "/d/file"}});
  EXPECT_THAT(refusal(), HasSubstr("lies in more than 64 folders"));
}

TEST_F(Archive, IsRefusedIfItIsNone) {
  for (const char* text : {"", "text", "\x1f\x8b", "{\"schema\": \"lockstep.record\"}"}) {
    write_text(file(), text);
    EXPECT_NE(refusal(), "accepted") << text;
  }
  write({{"run/record.json"}}, false);
  EXPECT_EQ(refusal(),
            ": it is no pack of Lockstep. Name the folder of a run, or a file that 'lockstep pack' "
            "wrote.");
  write({});
  EXPECT_NE(refusal(), "accepted");
}

TEST_F(Archive, ThatIsANamedPipeIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  EXPECT_NE(refusal(), "accepted");
}

}  // namespace
}  // namespace lockstep
