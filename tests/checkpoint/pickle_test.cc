#include "harness/checkpoint/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/checkpoint/literal_checkpoint.h"
#include "tests/refusal.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

bool is_known(std::string_view name) { return name == "a.B" || name == "collections.OrderedDict"; }

std::string pickle_refusal(const std::string& bytes) {
  return refusal_of("x", [&] { const Pickle pickle(bytes, "x", is_known); });
}

TEST(Pickle, IsReadAsATreeOfValues) {
  using namespace pickling;
  const Pickle pickle(
      whole(global("a", "B") + ")\x81" + dict({{text("n"), number(-3)}, {text("x"), "N"}}) + "b"),
      "x", is_known);
  const PickleRef root = &pickle.root();
  EXPECT_EQ(type_of(root), "a.B");
  EXPECT_EQ(*pickled<std::int64_t>(attribute_of(root, "n")), -3);
  EXPECT_TRUE(pickled<std::monostate>(attribute_of(root, "x")));
  EXPECT_EQ(attribute_of(root, "none"), nullptr);
}

TEST(Pickle, ReadsEachKindOfNumberTextAndMemo) {
  using namespace std::string_literals;
  const auto read = [](const std::string& bytes) {
    const Pickle pickle(bytes, "x", is_known);
    return pickle.root().value;
  };
  EXPECT_EQ(std::get<std::int64_t>(read("K\xff."s)), 255);
  EXPECT_EQ(std::get<std::int64_t>(read("M\xff\xff."s)), 65535);
  EXPECT_EQ(std::get<std::int64_t>(read("J\xff\xff\xff\xff."s)), -1);
  EXPECT_EQ(std::get<std::int64_t>(read("\x8a\x00."s)), 0);
  EXPECT_EQ(std::get<std::int64_t>(read("\x8a\x01\xfe."s)), -2);
  EXPECT_EQ(std::get<std::int64_t>(read("\x8a\x02\xfe\x00."s)), 254);
  EXPECT_EQ(std::get<double>(read("G\x3f\xf8\0\0\0\0\0\0."s)), 1.5);
  EXPECT_TRUE(std::get<bool>(read("\x88.")));
  EXPECT_EQ(std::get<std::string>(read("\x8c\x02hi.")), "hi");
  EXPECT_EQ(std::get<std::string>(read("\x8c\x02hi\x94"
                                       "0h\0."s)),
            "hi");
  EXPECT_EQ(std::get<std::string>(read("\x8c\x02hir\x00\x00\x00\x7f"
                                       "0j\x00\x00\x00\x7f."s)),
            "hi");
}

TEST(HostilePickle, IsRefused) {
  using namespace std::string_literals;
  using namespace pickling;
  EXPECT_THAT(pickle_refusal(whole(global("os", "system") + tuple({text("id")}) + "R")),
              HasSubstr("its pickle names os.system"));
  EXPECT_THAT(pickle_refusal("\x8c\x02os\x8c\x06system\x93."), HasSubstr("os.system"));
  EXPECT_THAT(pickle_refusal(""), HasSubstr("1 more bytes at byte 0 of a pickle"));
  EXPECT_THAT(pickle_refusal("."), HasSubstr("a value on the stack"));
  EXPECT_THAT(pickle_refusal("t."), HasSubstr("a mark on the stack"));
  EXPECT_THAT(pickle_refusal("(N0."), HasSubstr("a value on the stack"));
  EXPECT_THAT(pickle_refusal("}(Nu."), HasSubstr("a key without one"));
  EXPECT_THAT(pickle_refusal("N(Ne."), HasSubstr("a list"));
  EXPECT_THAT(pickle_refusal("NNb."), HasSubstr("an object"));
  EXPECT_THAT(pickle_refusal("NNR."), HasSubstr("a global to be called"));
  EXPECT_THAT(pickle_refusal("NN\x93."), HasSubstr("the name of a global"));
  EXPECT_THAT(pickle_refusal("ca\nB"), HasSubstr("a line"));
  EXPECT_THAT(pickle_refusal("h\x07."), HasSubstr("a value in the memo at byte 2 of a pickle"));
  EXPECT_THAT(pickle_refusal("X\xff\xff\xff\xff"
                             "a."),
              HasSubstr("4294967295 more bytes"));
  EXPECT_THAT(pickle_refusal("\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), HasSubstr("more bytes"));
  EXPECT_THAT(pickle_refusal("\x8a\x09" + std::string(9, 'x') + "."),
              HasSubstr("a number of 64 bits"));
  EXPECT_THAT(pickle_refusal("S'text'\n."), HasSubstr("the opcode 0x53"));
  EXPECT_THAT(pickle_refusal("N" + std::string(50'000'000, '2') + "."),
              HasSubstr("at most 20000000 values"));
}

/// Each list is the only item of the one before it; and a list that holds itself.
TEST(HostilePickle, MayBeDeepOrACycle) {
  constexpr std::size_t kDepth = 1'000'000;
  EXPECT_EQ(pickle_refusal(std::string(kDepth, ']') + std::string(kDepth - 1, 'a') + "."),
            "accepted");
  EXPECT_EQ(pickle_refusal(std::string("]\x94h\0a.", 6)), "accepted");
}

}  // namespace
}  // namespace lockstep
