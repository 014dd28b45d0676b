#include "reports/page/html_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

/// Code points that HTML forbids although they are valid UTF-8.
bool is_noncharacter(unsigned point) {
  return (point & 0xfffeU) == 0xfffeU || (point >= 0xfdd0 && point <= 0xfdef);
}

/// Of printable text, and thus valid UTF-8.
std::string escaped(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    // All of them begin with such a byte.
    if (static_cast<unsigned char>(c) >= 0xef) {
      const std::size_t length = character_length(text, i);
      const unsigned point = length == 0 ? 0 : code_point(text.substr(i, length));
      if (is_noncharacter(point)) {
        escaped += fmt::format("\\u{:04x}", point);
        i += length - 1;
        continue;
      }
    }
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::string in_html(std::string_view text, std::size_t most) {
  return escaped(plain(beginning(std::string(text), most)));
}

std::string in_pre(std::string_view text, std::size_t most) {
  return escaped(printable(ending(std::string(text), most)));
}

std::string copied_in_html(std::string_view text) {
  return fmt::format("<code class=\"copied\">{}</code>", in_html(text));
}

std::string ranks_in_short(const std::vector<int>& ranks, std::size_t most) {
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    for (end = begin + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) ++end;
    if (end - begin == 2) --end;
    if (ranges++ == most) {
      text += fmt::format(" and {} more", ranks.size() - begin);
      break;
    }
    text += fmt::format("{}{}", begin == 0 ? "" : ", ", ranks[begin]);
    if (end > begin + 1) text += fmt::format("-{}", ranks[end - 1]);
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", text);
}

std::string number_in_html(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.9g}", value);
}

}  // namespace lockstep
