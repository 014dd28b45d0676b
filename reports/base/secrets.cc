#include "reports/base/secrets.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "reports/base/ascii.h"
#include "reports/base/secret_names.h"

namespace lockstep {

namespace {

// Whatever is looked at before it is known to be a secret is limited to so many characters, so that
// no text is looked at more often than that.
constexpr std::size_t kLookedAt = 256;

using ascii::is_alphanumeric;
using ascii::is_digit;
using ascii::is_lower;
using ascii::is_upper;

bool is_word(char c) { return is_alphanumeric(c) || c == '_'; }
bool is_of_name(char c) { return is_word(c) || c == '-' || c == '.'; }
bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_newline(char c) { return c == '\n' || c == '\r'; }
bool is_space(char c) { return is_blank(c) || is_newline(c); }
bool is_quote(char c) { return c == '"' || c == '\'' || c == '`'; }
bool is_opening(char c) { return c == '(' || c == '[' || c == '{'; }
bool is_closing(char c) { return c == ')' || c == ']' || c == '}'; }

bool is_same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return ascii::to_lower(x) == ascii::to_lower(y); });
}

template <class Is>
std::size_t end_of(std::string_view text, std::size_t at, const Is& is,
                   std::size_t most = std::string_view::npos) {
  const std::size_t end = most < text.size() - at ? at + most : text.size();
  while (at < end && is(text[at])) ++at;
  return at;
}

// --- Known shapes ---

bool is_base64url(char c) { return is_word(c) || c == '-'; }
bool is_dotted(char c) { return is_base64url(c) || c == '.'; }
bool is_upper_or_digit(char c) { return is_upper(c) || is_digit(c); }
bool is_hex(char c) {
  return is_digit(c) || (ascii::to_lower(c) >= 'a' && ascii::to_lower(c) <= 'f');
}

/// A kind of token that begins with `prefix` and goes on with at least `least` of its characters.
/// If it is `mixed`, there must be a digit or a capital letter among them: "sk-learn-contributors".
struct Shape {
  std::string_view prefix;
  bool (*is_of)(char);
  std::size_t least;
  bool is_mixed = false;
};
constexpr std::array kShapes{
    Shape{"hf_", is_alphanumeric, 16},
    Shape{"api_org_", is_alphanumeric, 16},
    Shape{"ghp_", is_alphanumeric, 16},
    Shape{"gho_", is_alphanumeric, 16},
    Shape{"ghs_", is_alphanumeric, 16},
    Shape{"ghu_", is_alphanumeric, 16},
    Shape{"ghr_", is_alphanumeric, 16},
    Shape{"github_pat_", is_word, 16},
    Shape{"glpat-", is_base64url, 12},
    Shape{"glrt-", is_base64url, 16},
    Shape{"gldt-", is_base64url, 16},
    Shape{"glsa_", is_word, 16},
    Shape{"sk-", is_base64url, 16, true},
    Shape{"sk_live_", is_alphanumeric, 12},
    Shape{"sk_test_", is_alphanumeric, 12},
    Shape{"rk_live_", is_alphanumeric, 12},
    Shape{"whsec_", is_alphanumeric, 16},
    Shape{"AKIA", is_upper_or_digit, 16},
    Shape{"ASIA", is_upper_or_digit, 16},
    Shape{"xoxa-", is_base64url, 8},
    Shape{"xoxb-", is_base64url, 8},
    Shape{"xoxe-", is_base64url, 8},
    Shape{"xoxp-", is_base64url, 8},
    Shape{"xoxr-", is_base64url, 8},
    Shape{"xoxs-", is_base64url, 8},
    Shape{"xapp-", is_base64url, 8, true},
    Shape{"eyJ", is_dotted, 17},
    Shape{"AIza", is_base64url, 20},
    Shape{"ya29.", is_base64url, 16},
    Shape{"GOCSPX-", is_base64url, 12},
    Shape{"npm_", is_alphanumeric, 30},
    Shape{"pypi-AgE", is_base64url, 16},
    Shape{"dckr_pat_", is_base64url, 16},
    Shape{"nvapi-", is_base64url, 16},
    Shape{"gsk_", is_alphanumeric, 20, true},
    Shape{"r8_", is_alphanumeric, 20, true},
    Shape{"dop_v1_", is_alphanumeric, 20},
    Shape{"shpat_", is_alphanumeric, 20},
    Shape{"SG.", is_dotted, 30},
    Shape{"hvs.", is_base64url, 20},
    Shape{"AGE-SECRET-KEY-", is_alphanumeric, 16},
    Shape{"tskey-", is_base64url, 16},
};

constexpr std::size_t kLongestLeast = 40;

/// The end of a token of a known kind at `at`; `at`: there is none.
std::size_t end_of_token(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  for (const Shape& shape : kShapes) {
    if (rest[0] != shape.prefix[0] || !rest.starts_with(shape.prefix)) continue;
    const std::size_t begin = at + shape.prefix.size();
    const std::size_t seen = end_of(text, begin, shape.is_of, kLongestLeast);
    if (seen - begin < shape.least) continue;
    const std::string_view body = text.substr(begin, seen - begin);
    if (shape.is_mixed && std::none_of(body.begin(), body.end(), is_upper_or_digit)) continue;
    return end_of(text, seen, shape.is_of);
  }
  return at;
}

/// The end of a PEM block that begins at `at`, also if its newlines are escaped; `at`: there is
/// none. A block that is cut off goes to the end of the text.
std::size_t end_of_pem(std::string_view text, std::size_t at) {
  constexpr std::string_view kBegin = "-----BEGIN ";
  constexpr std::string_view kEnd = "-----END ";
  constexpr std::string_view kDashes = "-----";
  if (text[at] != '-' || !text.substr(at).starts_with(kBegin)) return at;
  const std::size_t end = text.find(kEnd, at);
  if (end == text.npos) return text.size();
  const std::size_t dashes = text.find(kDashes, end + kEnd.size());
  return dashes == text.npos ? text.size() : dashes + kDashes.size();
}

/// Where the credentials of a URL end, of which "://" has been read; `at`: it has none.
std::size_t end_of_credentials(std::string_view text, std::size_t at) {
  const auto is_of_authority = [](char c) {
    return !is_space(c) && !is_quote(c) && c != '/' && c != '?' && c != '#' && c != '<' && c != '>';
  };
  const std::size_t end = end_of(text, at, is_of_authority);
  const std::size_t sign = text.substr(at, end - at).rfind('@');
  return sign == text.npos ? at : at + sign;
}

// --- Values ---

constexpr std::array<std::string_view, 12> kNoSecrets{
    "true", "false", "yes", "no", "on", "off", "none", "null", "nil", "undefined", "***", "masked"};

/// After a name and a colon they say what the value is, not the value.
constexpr std::array<std::string_view, 44> kKinds{"str",
                                                  "int",
                                                  "float",
                                                  "bool",
                                                  "bytes",
                                                  "list",
                                                  "dict",
                                                  "tuple",
                                                  "set",
                                                  "any",
                                                  "object",
                                                  "callable",
                                                  "tensor",
                                                  "torch.tensor",
                                                  "optional",
                                                  "union",
                                                  "string",
                                                  "number",
                                                  "exp_avg",
                                                  "exp_avg_sq",
                                                  "max_exp_avg_sq",
                                                  "momentum_buffer",
                                                  "step",
                                                  "square_avg",
                                                  "acc_delta",
                                                  "grad_avg",
                                                  "sum",
                                                  "ax",
                                                  "mu",
                                                  "eta",
                                                  "prev",
                                                  "step_size",
                                                  "exp_inf",
                                                  "master_param",
                                                  "exp_avg_diff",
                                                  "previous_grad",
                                                  "neg_pre_grad",
                                                  "param",
                                                  "momentum",
                                                  "fp32_param",
                                                  "exp_avg_slow",
                                                  "mu_product",
                                                  "row",
                                                  "col"};

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view one) { return is_same_word(one, word); });
}

bool is_number(std::string_view value) {
  constexpr std::string_view kOfNumbers = "0123456789.,+-_eExX[]() ";
  return !value.empty() && std::any_of(value.begin(), value.end(), is_digit) &&
         value.find_first_not_of(kOfNumbers) == value.npos;
}

/// "encoder.layers.0.self_attn": a name of a tensor or a module. Capital letters are those of a
/// token.
bool is_path_of_names(std::string_view value) {
  if (value.find('.') == value.npos || value.ends_with('.') || !is_lower(value[0])) return false;
  return std::all_of(value.begin(), value.end(),
                     [](char c) { return is_lower(c) || is_digit(c) || c == '_' || c == '.'; });
}

enum class Letter { none, digit, upper, lower };

Letter letter_of(char c) {
  if (is_digit(c)) return Letter::digit;
  if (is_upper(c)) return Letter::upper;
  return is_lower(c) ? Letter::lower : Letter::none;
}

/// How often digits, capital and other letters follow each other, whatever is between them.
std::size_t changes_in(std::string_view value) {
  std::size_t changes = 0;
  Letter last = Letter::none;
  for (const char c : value) {
    const Letter kind = letter_of(c);
    if (kind == Letter::none) continue;
    changes += last != Letter::none && kind != last;
    last = kind;
  }
  return changes;
}

/// Long, and of letters and digits in turn: no word, number or path.
bool is_random(std::string_view value) {
  constexpr std::size_t kLeast = 16;
  static constexpr std::string_view kOthers = "+/=_-.~:%";
  if (value.size() < kLeast || value[0] == '/' || value[0] == '.' || is_number(value)) return false;
  const bool is_of_tokens = std::all_of(value.begin(), value.end(), [](char c) {
    return is_alphanumeric(c) || kOthers.find(c) != kOthers.npos;
  });
  return is_of_tokens && changes_in(value) >= 4;
}

/// How the value was found.
struct Assignment {
  std::string_view name;
  bool is_option = false;  ///< "--token", whose value may be the next word
  bool is_colon = false;   ///< "token: S", as in YAML and in prose
  bool is_quoted = false;  ///< the value
};

bool is_call_or_attribute(std::string_view value) {
  return value.find('(') != value.npos || value.starts_with("self.") ||
         value.starts_with("args.") || value.starts_with("cfg.") || value.starts_with("config.") ||
         value.starts_with("os.environ");
}

/// "epoch", "data-loader"
bool is_short_word(std::string_view value) {
  return value.size() < 12 && std::all_of(value.begin(), value.end(), [](char c) {
           return is_lower(c) || c == '_' || c == '-';
         });
}

/// The same of a value behind a colon.
bool is_harmless_behind_colon(std::string_view name, std::string_view value) {
  if (is_number(value) || is_path_of_names(value)) return true;
  const std::size_t word = end_of(value, 0, [](char c) { return is_word(c) || c == '.'; });
  if (is_among(kKinds, value.substr(0, word))) return true;
  return name.find('.') != name.npos ? !is_random(value) : is_short_word(value);
}

/// A weak name and a value that is a number, a word of prose or a name: "key: int", "key=k",
/// "attn.key: exp_avg".
bool is_harmless_of_weak(const Assignment& given, std::string_view value) {
  if (value.ends_with(".py") || value.ends_with(".sh")) return true;
  if (is_opening(value[0]) && is_number(value)) return true;  // a shape: "(8, 64)"
  if (given.is_quoted) return is_path_of_names(value);        // {"key": "encoder.weight"}
  if (given.is_option) return false;
  if (given.is_colon) return is_harmless_behind_colon(given.name, value);
  const bool is_variable = value.size() <= 2 && std::all_of(value.begin(), value.end(), is_lower);
  return is_variable || value == given.name || is_call_or_attribute(value);
}

/// `value` has at most kLookedAt characters: a longer one is no harmless one.
bool is_secret(const Assignment& given, std::string_view value) {
  if (value.empty() || is_among(kNoSecrets, value)) return false;
  switch (secrecy_of(given.name)) {
    case SecretName::harmless:
      return false;
    case SecretName::doubtful:
      return is_random(value);
    case SecretName::weak:
      return value.size() >= kLookedAt || !is_harmless_of_weak(given, value);
    case SecretName::strong:
      return given.is_quoted || !given.is_colon || !is_among(kKinds, value);
  }
  return true;
}

// --- Texts ---

/// Goes over a text once, from front to back.
class Masking {
 public:
  explicit Masking(std::string_view text) : text_(text) {}

  std::string masked() {
    while (at_ < text_.size()) step();
    copy_to(text_.size());
    return std::move(masked_);
  }

 private:
  struct Extent {
    std::size_t begin = 0;  ///< of what is replaced
    std::size_t end = 0;
    bool is_quoted = false;
  };

  void step() {
    const char c = text_[at_];
    if (is_word(c)) return step_over_word();
    if (const std::size_t end = end_of_pem(text_, at_); end > at_) return mask(at_, end);
    if (c == ':' && text_.substr(at_).starts_with("://")) {
      const std::size_t begin = at_ + 3;
      const std::size_t end = end_of_credentials(text_, begin);
      if (end > begin) return mask(begin, end);
      at_ = begin;
      return;
    }
    ++at_;
  }

  /// From its beginning, or from within one after what was masked.
  void step_over_word() {
    if (at_ == 0 || !is_word(text_[at_ - 1])) {
      if (const std::size_t end = end_of_token(text_, at_); end > at_) return mask(at_, end);
      if (mask_scheme() || mask_login()) return;
      if (at_ >= named_to_ && mask_assignment()) return;
    }
    at_ = end_of(text_, at_, is_word);
  }

  void copy_to(std::size_t end) {
    masked_ += text_.substr(copied_, end - copied_);
    copied_ = end;
  }

  void mask(std::size_t begin, std::size_t end) {
    copy_to(begin);
    masked_ += kMaskedSecret;
    copied_ = at_ = std::max(end, begin);
  }

  /// "Bearer S".
  bool mask_scheme() {
    constexpr std::string_view kBearer = "bearer";
    constexpr std::array<std::string_view, 7> kProse{"token",  "tokens", "authentication", "auth",
                                                     "scheme", "header", "authorization"};
    if (ascii::to_lower(text_[at_]) != 'b' ||
        !is_same_word(text_.substr(at_, kBearer.size()), kBearer)) {
      return false;
    }
    const std::size_t blank = at_ + kBearer.size();
    const std::size_t begin = end_of(text_, blank, is_blank);
    if (begin == blank) return false;
    const Extent value = end_of_bare(begin);
    const std::string_view said = text_.substr(begin, std::min(value.end - begin, kLookedAt));
    const bool is_short_word = said.size() < 6 || said[0] == '-' || is_among(kProse, said);
    if (is_short_word) return false;
    mask(begin, value.end);
    return true;
  }

  /// "wandb login S", and "login NAME password S" of a .netrc file.
  bool mask_login() {
    constexpr std::string_view kLogin = "login";
    constexpr std::string_view kPassword = "password";
    constexpr std::size_t kKeyOfWandb = 40;
    const auto is_visible = [](char c) { return !is_space(c); };
    if (text_[at_] != 'l' || !text_.substr(at_).starts_with(kLogin)) return false;
    const std::size_t blank = at_ + kLogin.size();
    std::size_t begin = end_of(text_, blank, is_space, kLookedAt);
    if (begin == blank || begin == text_.size()) return false;
    const std::size_t hex = end_of(text_, begin, is_hex, kKeyOfWandb);
    if (hex - begin == kKeyOfWandb) {
      mask(begin, hex);
      return true;
    }
    begin = end_of(text_, end_of(text_, begin, is_visible, kLookedAt), is_space, kLookedAt);
    if (!text_.substr(begin).starts_with(kPassword)) return false;
    const std::size_t gap = begin + kPassword.size();
    begin = end_of(text_, gap, is_space, kLookedAt);
    if (begin == gap || begin == text_.size() || text_[begin] == '-') return false;
    mask(begin, end_of(text_, begin, is_visible));
    return true;
  }

  bool mask_assignment() {
    named_to_ = end_of(text_, at_, is_of_name);
    const std::size_t dashes = at_ - dashes_before(at_);
    Assignment given{text_.substr(at_, named_to_ - at_)};
    given.is_option = dashes < at_ && (dashes == 0 || !is_of_name(text_[dashes - 1]));
    while (given.name.ends_with('.')) given.name.remove_suffix(1);
    const SecretName secrecy = secrecy_of(given.name);
    if (secrecy == SecretName::harmless) return false;
    const auto begin = begin_of_value(given, dashes, secrecy);
    if (!begin || *begin >= text_.size()) return false;
    if (!has_secret_at(*begin, given)) return false;
    const auto value = extent_of_value(*begin, given);
    if (!value) return false;
    mask(value->begin, value->end);
    return true;
  }

  /// Looks at the first characters only: what is no secret is gone over again.
  bool has_secret_at(std::size_t begin, Assignment& given) {
    const std::string_view whole = std::exchange(text_, text_.substr(0, begin + 2 * kLookedAt));
    const auto value = extent_of_value(begin, given);
    text_ = whole;
    if (!value) return false;
    given.is_quoted = value->is_quoted;
    return is_secret(given,
                     text_.substr(value->begin, std::min(value->end - value->begin, kLookedAt)));
  }

  std::size_t dashes_before(std::size_t at) const {
    std::size_t count = 0;
    while (count < 2 && count < at && text_[at - count - 1] == '-') ++count;
    return count;
  }

  /// Behind a quote, which may be escaped.
  std::size_t behind_quote(std::size_t at) const {
    std::size_t quote = end_of(
        text_, at, [](char c) { return c == '\\'; }, 8);
    if (quote == text_.size() || !is_quote(text_[quote])) return at;
    return quote + 1;
  }

  std::size_t behind_blanks(std::size_t at) const {
    at = end_of(text_, at, is_blank, kLookedAt);
    // A line of a shell that goes on in the next one.
    if (at + 1 < text_.size() && text_[at] == '\\' && is_newline(text_[at + 1])) {
      at = end_of(text_, at + 1, is_space, kLookedAt);
    }
    return at;
  }

  /// The value of a name, behind "=", ": ", "=>" or the gap between an option and its value.
  std::optional<std::size_t> begin_of_value(Assignment& given, std::size_t dashes,
                                            SecretName secrecy) const {
    const bool is_quoted = behind_quote(named_to_) > named_to_;
    const std::size_t at = behind_name();
    const std::size_t sign = behind_blanks(at);
    if (sign >= text_.size()) return {};
    const char c = text_[sign];
    if (c == '=') return behind_equals(sign);
    if (c == ':' && next_to(sign) != ':') {
      given.is_colon = !given.is_option;
      return behind_sign(sign, '=');
    }
    if (text_.substr(sign).starts_with("%3D")) return sign + 3;
    const bool is_element = dashes > 0 && text_[at_ - 1] == '<' && c == '>';
    if (is_element) return sign + 1;
    if (is_quoted) {
      const bool is_of_pair = given.is_option || secrecy == SecretName::strong;
      return c == ',' && is_of_pair ? second_of_pair(sign) : std::nullopt;
    }
    const bool is_next_word = given.is_option && sign > at;
    if (!is_next_word || text_.substr(sign).starts_with("--")) return {};
    return sign;
  }

  /// Behind the quote of the name, and behind the bracket of environ["TOKEN"].
  std::size_t behind_name() const {
    const std::size_t at = behind_quote(named_to_);
    const bool is_bracket = at > named_to_ && at < text_.size() && text_[at] == ']';
    return is_bracket ? at + 1 : at;
  }

  /// Behind one character, or two if `second` follows it.
  std::size_t behind_sign(std::size_t sign, char second) const {
    return behind_blanks(sign + (next_to(sign) == second ? 2 : 1));
  }

  char next_to(std::size_t at) const { return at + 1 < text_.size() ? text_[at + 1] : '\0'; }

  /// Behind "=" or "=>"; empty for a comparison.
  std::optional<std::size_t> behind_equals(std::size_t sign) const {
    const char next = next_to(sign);
    if (next == '=' || next == '~') return {};
    return behind_sign(sign, '>');
  }

  /// ['--token', 'S'], ('password', 'S'): the quoted word behind the comma.
  std::optional<std::size_t> second_of_pair(std::size_t comma) const {
    const std::size_t word = end_of(text_, comma + 1, is_space, kLookedAt);
    if (behind_quote(word) == word) return {};
    return word;
  }

  bool is_end_of_bare(std::size_t at) const { return is_space(text_[at]) || is_quote(text_[at]); }

  /// From `at` up to a space, a quote or the punctuation of the text around it.
  Extent end_of_bare(std::size_t at) const {
    const bool is_in_query = at_ > 0 && (text_[at_ - 1] == '?' || text_[at_ - 1] == '&');
    const bool is_in_element = at > 0 && text_[at - 1] == '>';
    std::string_view ends = is_in_query ? "&#" : "";
    if (is_in_element) ends = is_in_query ? "&#<" : "<";
    std::size_t end = at;
    while (end < text_.size() && !is_end_of_bare(end) && ends.find(text_[end]) == ends.npos) {
      const bool is_escape = text_[end] == '\\' && end + 1 < text_.size() &&
                             !is_quote(text_[end + 1]) && !is_newline(text_[end + 1]);
      end += is_escape ? 2 : 1;
    }
    constexpr std::string_view kAround = ",;)]}\\";
    while (end > at && kAround.find(text_[end - 1]) != kAround.npos) --end;
    return {at, end};
  }

  /// The end of a text in quotes that begins at `at`: in the same line, but for three quotes.
  std::size_t end_of_quotes(std::size_t at, std::string_view quote) const {
    while (at < text_.size() && !text_.substr(at).starts_with(quote)) {
      if (is_newline(text_[at]) && quote.size() < 3) break;
      const bool is_escape = text_[at] == '\\' && quote[0] != '\\' && at + 1 < text_.size() &&
                             !is_newline(text_[at + 1]);
      at += is_escape ? 2 : 1;
    }
    return at;
  }

  /// A value in quotes, of which a shell may have put several together: 'it'\''s'.
  Extent end_of_quoted(std::size_t at) const {
    constexpr std::string_view kJoint = "'\\''";
    std::size_t begin = behind_quote(at);
    std::string_view quote = text_.substr(at, begin - at);
    if (quote.size() == 1 && text_.substr(begin, 2) == std::string(2, quote[0])) {
      quote = text_.substr(at, 3);
      begin += 2;
    }
    std::size_t end = end_of_quotes(begin, quote);
    while (text_.substr(end).starts_with(kJoint)) end = end_of_quotes(end + kJoint.size(), "'");
    return {begin, end, true};
  }

  /// A list or a mapping, up to the bracket that closes it and the rest of the word; without one,
  /// to the end of the line.
  Extent end_of_brackets(std::size_t at) const {
    std::size_t depth = 0;
    for (std::size_t end = at; end < text_.size(); ++end) {
      if (is_opening(text_[end])) ++depth;
      if (is_closing(text_[end]) && --depth == 0) return {at, end_of_bare(end + 1).end, true};
    }
    return {at, end_of_line(at), true};
  }

  /// Whether quotes are around both the name and its value: 'PASSWORD=a b'.
  bool is_whole_word(const Assignment& given) const {
    const std::size_t dashes = at_ - dashes_before(at_);
    return !given.is_colon && dashes > 0 && is_quote(text_[dashes - 1]);
  }

  Extent end_of_whole(std::size_t at) const {
    const char quote = text_[at_ - dashes_before(at_) - 1];
    const std::size_t end = end_of(text_, at, [&](char c) { return c != quote && !is_newline(c); });
    return {at, end, true};
  }

  /// A word, or two: "Bearer S".
  Extent end_of_words(std::size_t at) const {
    constexpr std::array<std::string_view, 5> kSchemes{"bearer", "basic", "digest", "token",
                                                       "apikey"};
    const Extent word = end_of_bare(at);
    const std::size_t next = end_of(text_, word.end, is_blank, kLookedAt);
    const bool is_scheme = is_among(kSchemes, text_.substr(at, word.end - at));
    if (!is_scheme || next == word.end || next == text_.size()) return word;
    return {at, end_of_bare(next).end, true};
  }

  /// A shape, such as "(3, 256)".
  bool is_list_of_numbers(std::size_t at) const {
    constexpr std::string_view kOfNumbers = "0123456789.,+- ";
    std::size_t depth = 0;
    for (; at < text_.size(); ++at) {
      const char c = text_[at];
      if (is_opening(c)) {
        ++depth;
      } else if (is_closing(c)) {
        if (--depth == 0) return true;
      } else if (kOfNumbers.find(c) == kOfNumbers.npos) {
        return false;
      }
    }
    return false;
  }

  /// A text of YAML that begins in the next line.
  bool is_block(std::size_t at) const {
    return (text_[at] == '|' || text_[at] == '>') && text_.substr(at, 3).find('\n') != text_.npos;
  }

  Extent end_of_block(std::size_t at) const {
    const std::size_t begin = end_of(text_, text_.find('\n', at), is_space);
    return {begin, end_of_line(begin), true};
  }

  std::size_t end_of_line(std::size_t at) const {
    return end_of(text_, at, [](char c) { return !is_newline(c); });
  }

  /// The rest of the line, or of the quotes around it.
  Extent end_of_header(std::size_t at) const {
    const std::size_t begin = behind_quote(at);
    std::size_t end = end_of(text_, begin, [](char c) { return !is_newline(c) && !is_quote(c); });
    while (end > begin && text_[end - 1] == '\\') --end;
    return {begin, end, true};
  }

  /// Where the text in quotes begins: of "S", \"S\" or b'S'; `at`: there are none.
  std::size_t quoted_from(std::size_t at) const {
    constexpr std::string_view kPrefixes = "bBfFrRuU";
    const auto is_prefix = [&](char c) { return kPrefixes.find(c) != kPrefixes.npos; };
    const std::size_t quote = end_of(text_, at, is_prefix, 2);
    return behind_quote(quote) > quote ? quote : text_.npos;
  }

  std::optional<Extent> extent_of_value(std::size_t at, const Assignment& given) const {
    if (is_newline(text_[at])) return {};
    if (has_long_value(given.name)) return end_of_header(at);
    const std::size_t quote = quoted_from(at);
    const std::size_t begin = quote == text_.npos ? at : behind_quote(quote);
    if (begin >= text_.size()) return {};
    if (const std::size_t end = end_of_pem(text_, begin); end > begin)
      return Extent{begin, end, true};
    if (quote != text_.npos) return end_of_quoted(quote);
    if (is_opening(text_[at])) {
      return is_list_of_numbers(at) ? std::nullopt : std::optional(end_of_brackets(at));
    }
    if (is_block(at)) return end_of_block(at);
    const bool is_next_option = is_space(text_[at - 1]) && text_.substr(at).starts_with("--");
    if (is_next_option) return {};
    return is_whole_word(given) ? end_of_whole(at) : end_of_words(at);
  }

  std::string_view text_;
  std::string masked_;
  std::size_t at_ = 0;
  std::size_t copied_ = 0;    ///< of the text
  std::size_t named_to_ = 0;  ///< the end of the last name that was looked at
};

/// The option that a word is, without its value; empty: it is none.
std::string_view option_in(std::string_view word) {
  const std::size_t dashes = end_of(
      word, 0, [](char c) { return c == '-'; }, 2);
  const std::string_view name = word.substr(dashes);
  const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), is_of_name);
  return dashes > 0 && is_name ? name : std::string_view();
}

/// "NAME=S" and "--option=S", whose value is the rest of the word.
std::string mask_word(std::string_view word) {
  const std::size_t dashes = end_of(
      word, 0, [](char c) { return c == '-'; }, 2);
  const std::size_t sign = end_of(word, dashes, is_of_name);
  if (sign < word.size() && word[sign] == '=') {
    const std::string value = mask_value(word.substr(dashes, sign - dashes), word.substr(sign + 1));
    if (value == kMaskedSecret) return std::string(word.substr(0, sign + 1)) + value;
  }
  return mask_secrets(word);
}

}  // namespace

/// What is left of a value may look like the end of a secret, once that is masked.
std::string mask_secrets(std::string_view text) {
  constexpr int kMostPasses = 8;
  std::string masked = Masking(text).masked();
  std::string before(text);
  for (int pass = 1; pass < kMostPasses && masked != before; ++pass) {
    before = std::move(masked);
    masked = Masking(before).masked();
  }
  return masked;
}

std::string mask_value(std::string_view name, std::string_view value) {
  Assignment given{name};
  given.is_quoted = true;
  if (is_secret(given, value.substr(0, kLookedAt))) return std::string(kMaskedSecret);
  return mask_secrets(value);
}

std::vector<std::string> mask_command(std::vector<std::string> words) {
  std::string option;
  for (std::string& word : words) {
    const std::string name(option_in(word));
    const bool is_value = !option.empty() && !word.starts_with("--");
    Assignment given{option};
    given.is_option = !word.ends_with(".py") && !word.ends_with(".sh");
    const bool is_masked =
        is_value && is_secret(given, std::string_view(word).substr(0, kLookedAt));
    const bool has_more = is_value && option.ends_with('s');  // "--api-keys S S"
    if (!has_more) option = is_masked ? std::string() : name;
    word = is_masked ? std::string(kMaskedSecret) : mask_word(word);
  }
  return words;
}

std::string mask_name(std::string_view name) {
  const bool is_plain = name.find(" -") == name.npos && !name.starts_with('-') &&
                        std::all_of(name.begin(), name.end(), [](char c) {
                          return (is_of_name(c) && !is_upper(c)) || c == ':' || c == ' ' ||
                                 c == '/' || c == '[' || c == ']';
                        });
  if (!is_plain) return mask_secrets(name);
  std::string masked;
  for (std::size_t at = 0; at < name.size();) {
    const bool is_begin = at == 0 || !is_word(name[at - 1]);
    const std::size_t end = is_begin ? end_of_token(name, at) : at;
    if (end > at) {
      masked += kMaskedSecret;
      at = end;
    } else {
      masked += name[at++];
    }
  }
  return masked;
}

}  // namespace lockstep
