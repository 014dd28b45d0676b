#include "harness/pack/redaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reports/base/error.h"

namespace lockstep {
namespace {

Redaction redaction_of(const std::vector<std::string>& patterns,
                       const std::vector<std::string>& names) {
  Redaction redaction(patterns);
  for (const std::string& name : names) redaction.learn(name);
  return redaction;
}

TEST(Redaction, GivesEqualNamesOnePseudonymAndOthersOthers) {
  Redaction redaction = redaction_of({"^enc"}, {"head", "encoder.b", "encoder.a"});
  EXPECT_EQ(redaction.name("encoder.a"), "name-1");
  EXPECT_EQ(redaction.name("encoder.b"), "name-2");
  EXPECT_EQ(redaction.name("encoder.a"), "name-1");
  EXPECT_EQ(redaction.name("head"), "head");
  EXPECT_EQ(redaction.size(), 2U);
}

/// Two tensors of one name would agree or differ by mistake.
TEST(Redaction, GivesNoNamePseudonymThatIsTheNameOfAnother) {
  Redaction redaction = redaction_of({"^enc"}, {"encoder", "name-1", "name-2: exp_avg"});
  EXPECT_EQ(redaction.name("encoder"), "name-3");
  EXPECT_EQ(redaction.name("name-1"), "name-1");
}

TEST(Redaction, ReplacesThePartsOfTheNameOfAState) {
  Redaction redaction = redaction_of({"^enc", "^a: b$"}, {"enc.w: exp_avg", "enc.w", "a: b"});
  EXPECT_EQ(redaction.name("enc.w: exp_avg"), "name-1: exp_avg");
  EXPECT_EQ(redaction.name("enc.w"), "name-1");
  EXPECT_EQ(redaction.name("a: b"), "name-2") << "matches as a whole only";
  EXPECT_EQ(redaction.name(": x"), ": x");
}

/// Anchors are about names, not about the sentence in which a name stands.
TEST(Redaction, ReplacesLearntNamesInSentences) {
  Redaction redaction = redaction_of({"^enc.*t$", "^b$"}, {"encoder.weight", "b"});
  EXPECT_EQ(redaction.text("first in step 3, encoder.weight: rank 1 differs in encoder.weight."),
            "first in step 3, name-1: rank 1 differs in name-1.");
  EXPECT_EQ(redaction.text("a.b, b.c, bb and b"), "a.b, b.c, bb and name-2");
}

TEST(Redaction, TakesTheLongerNameFirst) {
  Redaction redaction = redaction_of({"secret"}, {"secret", "secret one"});
  EXPECT_EQ(redaction.text("secret one and secret"), "name-1 and name-2");
}

TEST(Redaction, ReplacesOtherMatchesInTextsToo) {
  Redaction redaction = redaction_of({"/home/[a-z]+"}, {});
  EXPECT_EQ(redaction.text("in /home/ann/x.py\nand /home/bob, not /home/ann"),
            "in name-1/x.py\nand name-2, not name-1");
}

TEST(Redaction, LooksAtNoPseudonymAgain) {
  Redaction redaction = redaction_of({"name", "[0-9]"}, {"name"});
  EXPECT_EQ(redaction.text("name 5"), "name-1 name-2");
}

TEST(Redaction, LeavesTextsAloneUnlessItIsAskedFor) {
  Redaction redaction({});
  EXPECT_FALSE(redaction.is_asked_for());
  EXPECT_EQ(redaction.text(std::string(10000, 'a')), std::string(10000, 'a'));
}

/// An engine that tries all ways would need more stack, or more time, than there is.
TEST(Redaction, SearchesALongLineAndReplacesItAsAWhole) {
  Redaction redaction({"b|(a|c)*d", "(e*)*f"});
  const std::string line(1'000'000, 'a');
  EXPECT_EQ(redaction.text(line + "\nx"), line + "\nx");
  EXPECT_EQ(redaction.text(line + "d" + line + "\nx"), "name-1\nx");
  EXPECT_EQ(redaction.name(line + "d"), "name-2");
  EXPECT_EQ(redaction.name(std::string(1'000'000, 'e')), std::string(1'000'000, 'e'));
}

TEST(Redaction, ReplacesALongLineThatHoldsALearntName) {
  Redaction redaction = redaction_of({"^enc$"}, {"enc"});
  EXPECT_EQ(redaction.text(std::string(10'000, ' ') + "enc"), "name-1");
}

TEST(Redaction, IgnoresMatchesOfNothing) {
  Redaction redaction({"x*"});
  EXPECT_EQ(redaction.text("abc"), "abc");
}

TEST(Redaction, RefusesWhatIsNoExpression) {
  try {
    Redaction redaction({"a", "(b"});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--redact cannot be '(b': give a regular expression.");
  }
}

/// They cannot be searched in linear time.
TEST(Redaction, RefusesBackwardReferencesAndAutomataOfAnySize) {
  EXPECT_THROW(Redaction({"(a)\\1"}), Error);
  EXPECT_THROW(Redaction({"(?=a)"}), Error);
  EXPECT_THROW(Redaction({"((a{100}){100}){100}"}), Error);
}

}  // namespace
}  // namespace lockstep
