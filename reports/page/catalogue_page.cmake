# Writes catalogue_page.cc, which compiles docs/catalogue.md into the program.
set(page ${PROJECT_SOURCE_DIR}/docs/catalogue.md)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
file(READ ${page} text)
lockstep_literals(literals page "${text}")
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/catalogue_page.cc @ONLY CONTENT [[
#include "reports/page/scenario_page.h"

namespace lockstep {

const std::string_view kCataloguePage =@literals@;

}  // namespace lockstep
]])
