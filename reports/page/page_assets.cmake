# Writes page_assets.cc, which compiles the style and the scripts of a page into the program. Each comes
# with its SHA-256: the page allows exactly these.
find_file(LOCKSTEP_CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH)
if(NOT LOCKSTEP_CHART_JS)
  message(FATAL_ERROR "Chart.js, which HTML reports contain, was not found. Install Debian's package "
          "libjs-chart.js (ci/bootstrap does), or set LOCKSTEP_CHART_JS to a chart.min.js of version 3.")
endif()
set(assets "")
foreach(asset "Style;${CMAKE_CURRENT_SOURCE_DIR}/page.css" "Script;${CMAKE_CURRENT_SOURCE_DIR}/page.js"
        "ChartScript;${LOCKSTEP_CHART_JS}" "ChartLicence;${CMAKE_CURRENT_SOURCE_DIR}/chart_licence.txt")
  list(GET asset 0 name)
  list(GET asset 1 file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  if(text MATCHES "</(script|style)")
    message(FATAL_ERROR "${file} would end its element in a page.")
  endif()
  string(SHA256 digest "${text}")
  lockstep_literals(literals asset "${text}")
  string(APPEND assets "const PageAsset k${name}{${literals},\n    \"${digest}\"};\n\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/page_assets.cc @ONLY CONTENT [[
#include "reports/page/page_assets.h"

namespace lockstep {

@assets@}  // namespace lockstep
]])
