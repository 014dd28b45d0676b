# Writes OUT, which compiles docs/findings/*.md into the program.
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/findings/*.md)
set(entries "")
foreach(page IN LISTS pages)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
  get_filename_component(kind ${page} NAME_WE)
  file(READ ${page} text)
  string(APPEND entries "    {\"${kind}\", R\"page(${text})page\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/finding_pages.cc @ONLY CONTENT [[
#include "reports/page/finding_pages.h"

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

constexpr std::pair<std::string_view, std::string_view> kFindingPages[] = {
@entries@};

}  // namespace

std::string_view page_of(FindingKind kind) {
  return std::find_if(std::begin(kFindingPages), std::end(kFindingPages),
                      [&](const auto& page) { return page.first == name(kind); })
      ->second;
}

std::string meaning_of(FindingKind kind) {
  std::string meaning(page_of(kind));
  meaning.erase(0, meaning.find("\n\n") + 2);
  meaning.erase(meaning.find("\n\n"));
  std::replace(meaning.begin(), meaning.end(), '\n', ' ');
  return meaning;
}

}  // namespace lockstep
]])
