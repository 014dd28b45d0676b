#include "reports/base/secrets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "tests/secret_forms.h"

namespace lockstep {
namespace {

TEST(Secrets, AreMaskedInEveryForm) {
  EXPECT_GE(secret_forms().size(), 80U);
  for (const std::string& form : secret_forms()) {
    EXPECT_TRUE(has_secret(form)) << form;
    EXPECT_FALSE(has_secret(mask_secrets(form))) << form << "\n  " << mask_secrets(form);
    EXPECT_EQ(mask_secrets(mask_secrets(form)), mask_secrets(form));
  }
}

TEST(Secrets, AreMaskedInTheMiddleOfText) {
  for (const std::string& form : secret_forms()) {
    const std::string text = "RuntimeError: step 3 failed\n" + form + "\nloss 0.25, rank 1";
    const std::string masked = mask_secrets(text);
    EXPECT_FALSE(has_secret(masked)) << masked;
    EXPECT_TRUE(masked.starts_with("RuntimeError: step 3 failed\n")) << masked;
    const bool is_cut_off = form.find("-----END") == form.npos && form.find("-----") != form.npos;
    EXPECT_TRUE(is_cut_off || masked.ends_with("\nloss 0.25, rank 1")) << masked;
  }
}

TEST(Secrets, LeaveWhatOnlyResemblesThem) {
  EXPECT_GE(harmless_twins().size(), 40U);
  for (const std::string& twin : harmless_twins()) {
    EXPECT_EQ(mask_secrets(twin), twin);
    EXPECT_EQ(mask_secrets("before\n" + twin + "\nafter"), "before\n" + twin + "\nafter");
  }
}

TEST(Secrets, LeaveTheTextAroundThem) {
  EXPECT_EQ(mask_secrets("--api-key abc --lr 0.1"), "--api-key *** --lr 0.1");
  EXPECT_EQ(mask_secrets("{\"api_key\": \"abc\", \"lr\": 0.1}"),
            "{\"api_key\": \"***\", \"lr\": 0.1}");
  EXPECT_EQ(mask_secrets("Config(token='abc', lr=0.1)"), "Config(token='***', lr=0.1)");
  EXPECT_EQ(mask_secrets("https://me:abc@host/x?token=abc&step=3"),
            "https://***@host/x?token=***&step=3");
  EXPECT_EQ(mask_secrets("-H \"Authorization: Bearer abc\" -X GET"),
            "-H \"Authorization: ***\" -X GET");
  EXPECT_EQ(mask_secrets("password: abc, user: me"), "password: ***, user: me");
}

TEST(Secrets, AreMaskedInTheWordsOfACommand) {
  const auto masked = [](std::vector<std::string> words) { return mask_command(std::move(words)); };
  using Words = std::vector<std::string>;
  EXPECT_EQ(masked({"train.py", "--api-key", "a b", "--lr", "0.1"}),
            (Words{"train.py", "--api-key", "***", "--lr", "0.1"}));
  EXPECT_EQ(masked({"env", "PASSWORD=a b", "--token=c, d"}),
            (Words{"env", "PASSWORD=***", "--token=***"}));
  EXPECT_EQ(masked({"--password", "-abc", "--secrets", "a", "b", "--x", "c"}),
            (Words{"--password", "***", "--secrets", "***", "***", "--x", "c"}));
  EXPECT_EQ(masked({"--use-auth", "train.py", "--token", "--lr", "3"}),
            (Words{"--use-auth", "train.py", "--token", "--lr", "3"}));
  EXPECT_EQ(masked({"--tokenizer", "gpt2", "--max-tokens", "512", "--use-auth-token", "true"}),
            (Words{"--tokenizer", "gpt2", "--max-tokens", "512", "--use-auth-token", "true"}));
  EXPECT_EQ(masked({"-c", "{\"api_key\": \"abc\"}", "--header", "X-Api-Key: abc"}),
            (Words{"-c", "{\"api_key\": \"***\"}", "--header", "X-Api-Key: ***"}));
  EXPECT_EQ(masked({"--token"}), Words{"--token"});
  EXPECT_EQ(masked({}), Words{});
}

/// Else masking again would take the rest for the end of a secret.
TEST(Secrets, GoOnBehindBracketsUpToTheEndOfTheWord) {
  EXPECT_EQ(mask_secrets("password=(a)b c"), "password=*** c");
  EXPECT_EQ(mask_secrets("password=[a], lr=1"), "password=***, lr=1");
}

TEST(Secrets, AreValuesOfSettings) {
  EXPECT_EQ(mask_value("env.WANDB_API_KEY", "abc"), "***");
  EXPECT_EQ(mask_value("AdamW.lr", "0.1"), "0.1");
  EXPECT_EQ(mask_value("url", "http://me:abc@host"), "http://***@host");
  EXPECT_EQ(mask_value("token", ""), "");
}

TEST(Secrets, AreNoNamesOfTensors) {
  EXPECT_EQ(mask_name("attn.token: momentum"), "attn.token: momentum");
  EXPECT_EQ(mask_name("secret: w"), "secret: w");
  for (const std::string& secret : shaped_secrets()) {
    EXPECT_FALSE(has_secret(mask_name(secret))) << mask_name(secret);
  }
  EXPECT_EQ(mask_name("password='abc'"), "password='***'");
  EXPECT_EQ(mask_name("--password abc"), "--password ***");
  EXPECT_EQ(mask_secrets("secret: exp_avg"), "secret: exp_avg");
}

/// Whatever is around a secret, nothing fails, and it does not come back.
TEST(Secrets, AreMaskedInAnyBytes) {
  const std::vector<std::string> parts{
      "--",    "token",    "=",   ":",  " ",           "\"",        "'",   "\\",   "[",
      "]",     "(",        "}",   "\n", "S3cret",      "://",       "@",   "<",    "Bearer",
      "login", "password", "%3D", ">",  "-----BEGIN ", "-----END ", "hf_", "\xff", "|"};
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) text += parts[random() % parts.size()];
    const std::string masked = mask_secrets(text);
    EXPECT_EQ(mask_secrets(masked), masked) << text;
    const std::string after = mask_secrets(text + "\n--api-key " + std::string(kSecret));
    EXPECT_FALSE(has_secret(after)) << after;
  }
}

double seconds_for(const std::string& text) {
  double least = 1e9;
  for (int i = 0; i < 2; ++i) {
    const std::clock_t begin = std::clock();
    mask_secrets(text);
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

/// Twice the text takes twice the time: at most 2^1.3 of it.
TEST(Secrets, TakeTimeLinearInTheText) {
  const std::vector<std::string> units{"a",
                                       "key=f(",
                                       "key: a.",
                                       "://",
                                       "sk-",
                                       "eyJ.",
                                       "\"",
                                       "token=\"",
                                       "token=[",
                                       "://a",
                                       "key=\\",
                                       "--key ",
                                       "Bearer ",
                                       "login ",
                                       "key=1,",
                                       "password: ",
                                       "token:(1,",
                                       "-",
                                       "-----BEGIN ",
                                       "AKIA",
                                       "'token', '",
                                       "a.key=",
                                       "Authorization: ",
                                       "key: |\n",
                                       "'\\''",
                                       "%3D",
                                       "key = ",
                                       "keykey_",
                                       "a b\n",
                                       "\\",
                                       "key\\\"",
                                       "<key>",
                                       "token_x=",
                                       "token_x=\"",
                                       "keys=[",
                                       "token_type=(a",
                                       "'token_x=",
                                       "key_size: "};
  for (const std::string& unit : units) {
    const auto text = [&](std::size_t size) {
      std::string repeated;
      while (repeated.size() < size) repeated += unit;
      return repeated;
    };
#ifdef LOCKSTEP_SANITIZED  // it takes many times as long
    constexpr std::size_t kSize = 1 << 14;
#else
    constexpr std::size_t kSize = 1 << 16;
#endif
    const double one = seconds_for(text(kSize));
    const double four = seconds_for(text(4 * kSize));
    EXPECT_TRUE(four < 6.06 * one + 0.05) << unit << ": " << one << " s, " << four << " s";
  }
}

}  // namespace
}  // namespace lockstep
