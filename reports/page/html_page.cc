#include "reports/page/html_page.h"

#include <fmt/format.h>

#include "reports/page/html_text.h"
#include "reports/page/page_assets.h"

namespace lockstep {

namespace {

int hex_digit(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

/// Base64 of hexadecimal digits, as a policy wants a digest.
std::string base64_of(std::string_view hex) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  // Three hexadecimal digits are two of base64.
  for (std::size_t i = 0; i < hex.size(); i += 3) {
    int bits = 0;
    for (std::size_t k = i; k < i + 3; ++k) {
      bits = bits * 16 + (k < hex.size() ? hex_digit(hex[k]) : 0);
    }
    text += kDigits[static_cast<std::size_t>(bits >> 6)];
    if (i + 2 <= hex.size()) text += kDigits[static_cast<std::size_t>(bits & 63)];
  }
  while (text.size() % 4 != 0) text += '=';
  return text;
}

/// 'none' by default: no image, font, frame, form or connection.
std::string policy() {
  return fmt::format(
      "default-src 'none'; script-src 'sha256-{}' 'sha256-{}'; style-src 'sha256-{}'; "
      "base-uri 'none'; form-action 'none'",
      base64_of(kChartScript.sha256), base64_of(kScript.sha256), base64_of(kStyle.sha256));
}

std::string_view class_of(Tone tone) {
  return tone == Tone::good ? "good" : tone == Tone::bad ? "bad" : "open";
}

std::string head(const HtmlPage& page) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n",
      policy(), in_html(page.title, 300), kStyle.text);
}

std::string contents(const HtmlPage& page) {
  std::string items;
  for (const HtmlSection& section : page.sections) {
    items += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", section.id, section.heading);
  }
  return fmt::format("<nav aria-label=\"Contents\"><ul>\n{}</ul></nav>\n", items);
}

std::string licence() {
  return fmt::format(
      "<footer>\n<p>Lockstep wrote this page. It loads nothing. Charts are drawn by Chart.js, "
      "which "
      "is part of it.</p>\n{}</footer>\n",
      html_details("Licence of Chart.js", html_output("Licence of Chart.js", kChartLicence.text)));
}

}  // namespace

std::string html_of(const HtmlPage& page) {
  std::string text = head(page) + "<body>\n<a class=\"skip\" href=\"#main\">To the content</a>\n";
  text += fmt::format("<header class=\"{}\">\n<p class=\"kicker\">{}</p>\n<h1>{}</h1>\n",
                      class_of(page.tone), in_html(page.kicker, 300), page.verdict);
  for (const std::string& line : page.lead) text += fmt::format("<p>{}</p>\n", line);
  text += "</header>\n" + contents(page) + "<main id=\"main\" tabindex=\"-1\">\n";
  for (const HtmlSection& section : page.sections) {
    text += fmt::format(
        "<section id=\"{0}\" aria-labelledby=\"{0}-heading\">\n"
        "<h2 id=\"{0}-heading\">{1}</h2>\n",
        section.id, section.heading);
    text += section.body;
    text += "</section>\n";
  }
  text += "</main>\n" + licence();
  text += fmt::format("<script>{}</script>\n", kChartScript.text);
  text += fmt::format("<script>{}</script>\n</body>\n</html>\n", kScript.text);
  return text;
}

std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string text;
  for (const auto& [term, markup] : facts) {
    if (markup.empty()) continue;
    text += fmt::format("<dt>{}</dt><dd>{}</dd>\n", term, markup);
  }
  return text.empty() ? "" : "<dl class=\"facts\">\n" + text + "</dl>\n";
}

std::string html_details(std::string_view summary, std::string_view body, bool is_open) {
  return fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", is_open ? " open" : "",
                     summary, body);
}

std::string html_output(std::string_view label, std::string_view text) {
  return fmt::format("<pre tabindex=\"0\" role=\"group\" aria-label=\"{}\">{}</pre>\n", label,
                     in_pre(text));
}

std::string html_list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += fmt::format("<li>{}</li>\n", item);
  return text.empty() ? "" : "<ul>\n" + text + "</ul>\n";
}

std::string html_badge(std::string_view word, Tone tone) {
  return fmt::format("<span class=\"badge {}\">{}</span>", class_of(tone), in_html(word));
}

}  // namespace lockstep
