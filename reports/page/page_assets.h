#pragma once

#include <string_view>

namespace lockstep {

/// A file that is compiled into the program, for pages.
struct PageAsset {
  std::string_view text;
  std::string_view sha256;  ///< of the text, hexadecimal
};

extern const PageAsset kStyle;         ///< page.css
extern const PageAsset kScript;        ///< page.js
extern const PageAsset kChartScript;   ///< Chart.js, minified
extern const PageAsset kChartLicence;  ///< of Chart.js and the library inside it

}  // namespace lockstep
