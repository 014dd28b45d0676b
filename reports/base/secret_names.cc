#include "reports/base/secret_names.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "reports/base/ascii.h"

namespace lockstep {

namespace {

template <std::size_t N>
bool has_word(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::array<std::string_view, 13> kStrong{
    "secret",     "secrets",     "password", "passwords", "passwd",  "pwd",          "passphrase",
    "credential", "credentials", "creds",    "apikey",    "apikeys", "authorization"};

/// A word without a gap that ends in one of these is strong: "clientsecret", "dbpassword".
constexpr std::array<std::string_view, 14> kStrongEndings{
    "apikey",   "apikeys", "accesskey", "secretkey", "privatekey", "accountkey", "authkey",
    "password", "passwd",  "secret",    "authtoken", "passphrase", "token",      "credentials"};

constexpr std::array<std::string_view, 3> kWeak{"key", "token", "auth"};
constexpr std::array<std::string_view, 2> kPlural{"keys", "tokens"};

/// Before "key", "token" or "auth" they leave no doubt.
constexpr std::array<std::string_view, 42> kMakesStrong{
    "api",     "access",      "secret",   "private", "auth",      "bearer",   "refresh",
    "session", "hf",          "gh",       "github",  "gitlab",    "wandb",    "openai",
    "aws",     "azure",       "gcp",      "google",  "anthropic", "comet",    "neptune",
    "mlflow",  "slack",       "bot",      "ssh",     "signing",   "account",  "encryption",
    "master",  "service",     "license",  "deploy",  "client",    "user",     "admin",
    "hub",     "huggingface", "registry", "storage", "personal",  "security", "sas"};

/// Before "key": names of columns, of parts of a model and of dictionaries.
constexpr std::array<std::string_view, 76> kHarmlessKeys{
    "sort",     "group",    "dict",         "cache",     "partition", "primary",   "foreign",
    "index",    "column",   "col",          "data",      "dataset",   "image",     "images",
    "text",     "label",    "labels",       "input",     "output",    "target",    "prompt",
    "response", "reward",   "answer",       "question",  "audio",     "video",     "feature",
    "features", "metric",   "field",        "query",     "lookup",    "hash",      "map",
    "json",     "yaml",     "attn",         "attention", "num",       "head",      "val",
    "batch",    "tensor",   "module",       "param",     "parameter", "state",     "name",
    "message",  "messages", "conversation", "chat",      "order",     "row",       "item",
    "unique",   "merge",    "join",         "bucket",    "rng",       "prng",      "random",
    "seed",     "route",    "shard",        "value",     "position",  "step",      "time",
    "event",    "store",    "cross",        "self",      "missing",   "unexpected"};

/// Before "token": words of vocabularies and of counts.
constexpr std::array<std::string_view, 62> kHarmlessTokens{
    "eos",    "bos",        "pad",    "unk",         "sep",        "cls",     "mask",
    "image",  "img",        "video",  "audio",       "special",    "start",   "end",
    "stop",   "eot",        "eod",    "class",       "dist",       "distill", "register",
    "reg",    "query",      "prompt", "placeholder", "fim",        "prefix",  "suffix",
    "middle", "begin",      "next",   "prev",        "last",       "first",   "new",
    "max",    "min",        "num",    "per",         "each",       "every",   "total",
    "extra",  "additional", "think",  "tool",        "boi",        "eoi",     "patch",
    "ignore", "null",       "blank",  "sos",         "padding",    "unknown", "separator",
    "mem",    "memory",     "action", "state",       "unexpected", "speech"};

/// Before "pass": it is a password.
constexpr std::array<std::string_view, 11> kMakesPassword{
    "db", "user", "mysql", "smtp", "redis", "proxy", "ftp", "http", "login", "admin", "root"};

/// After a word of the list they name the value itself: "API_KEY_PROD", "password_string".
constexpr std::array<std::string_view, 20> kSuffixes{
    "value", "string", "str",  "text", "raw",     "plain",   "base64",  "b64",    "hex",  "header",
    "bytes", "pem",    "prod", "dev",  "staging", "default", "primary", "backup", "main", "old"};

/// The end of a name: its last two words, and what is before them.
struct Ending {
  std::string last;
  std::string before;
  bool has_strong = false;  ///< a word before the last is strong
  bool has_weak = false;
};

bool is_strong_word(std::string_view word) {
  if (has_word(kStrong, word)) return true;
  return std::any_of(kStrongEndings.begin(), kStrongEndings.end(), [&](std::string_view ending) {
    return word.size() > ending.size() && word.ends_with(ending);
  });
}

/// Adds a word that is complete.
void push(Ending& ending, std::string& word) {
  while (word.size() > 1 && ascii::is_digit(word.back())) word.pop_back();
  if (word.empty()) return;
  const bool is_weak = has_word(kWeak, ending.last);
  ending.has_strong |=
      is_strong_word(ending.last) || (is_weak && has_word(kMakesStrong, ending.before));
  ending.has_weak |= is_weak;
  ending.before = std::move(ending.last);
  ending.last = std::move(word);
  word.clear();
}

/// Whether a word begins at a capital letter: "K" in "apiKey" and in "APIKey".
bool begins_word_inside(std::string_view name, std::size_t at) {
  if (at == 0 || !ascii::is_upper(name[at])) return false;
  const char before = name[at - 1];
  if (ascii::is_lower(before)) return true;
  return ascii::is_upper(before) && at + 1 < name.size() && ascii::is_lower(name[at + 1]);
}

/// Splits at everything that is neither letter nor digit, and in "apiKey" and "APIKey".
Ending ending_of(std::string_view name) {
  constexpr std::size_t kLongestWord = 64;
  Ending ending;
  std::string word;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool is_part = ascii::is_alphanumeric(c);
    if (!is_part || begins_word_inside(name, i)) push(ending, word);
    if (is_part && word.size() < kLongestWord) word += ascii::to_lower(c);
  }
  push(ending, word);
  return ending;
}

bool is_whole_number(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), ascii::is_digit);
}

/// "eostoken": a strong word by its end, which is a word of tokenizers.
bool is_harmless_token(std::string_view word) {
  constexpr std::string_view kToken = "token";
  if (!word.ends_with(kToken) || word.size() == kToken.size()) return false;
  return has_word(kHarmlessTokens, word.substr(0, word.size() - kToken.size()));
}

/// Whether the word before "key" or "token" makes it a name of something else: "cache_key".
bool is_harmless_pair(const Ending& name) {
  return (name.last == "key" && has_word(kHarmlessKeys, name.before)) ||
         (name.last == "token" && has_word(kHarmlessTokens, name.before));
}

bool is_password(const Ending& name) {
  return name.last == "pass" && has_word(kMakesPassword, name.before);
}

/// What names that end in a word of no list say by their other words.
SecretName secrecy_of_other_words(const Ending& name) {
  const bool is_suffix = has_word(kSuffixes, name.last) || is_whole_number(name.last);
  if (name.has_strong) return is_suffix ? SecretName::strong : SecretName::doubtful;
  return name.has_weak ? SecretName::doubtful : SecretName::harmless;
}

SecretName secrecy_of_ending(const Ending& name) {
  if (is_strong_word(name.last)) {
    return is_harmless_token(name.last) ? SecretName::harmless : SecretName::strong;
  }
  if (is_harmless_pair(name)) return SecretName::harmless;
  const bool is_made_strong = has_word(kMakesStrong, name.before);
  if (name.last == "key" || name.last == "token" || name.last == "auth") {
    return is_made_strong ? SecretName::strong : SecretName::weak;
  }
  if (has_word(kPlural, name.last)) {
    return is_made_strong ? SecretName::strong : SecretName::doubtful;
  }
  if (is_password(name) || name.last == "cookie") return SecretName::strong;
  if (name.last == "sig" || name.last == "signature") return SecretName::weak;
  return secrecy_of_other_words(name);
}

}  // namespace

SecretName secrecy_of(std::string_view name) { return secrecy_of_ending(ending_of(name)); }

bool has_long_value(std::string_view name) {
  const std::string last = ending_of(name).last;
  return last == "authorization" || last == "cookie";
}

}  // namespace lockstep
