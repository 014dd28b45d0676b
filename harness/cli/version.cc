#include "harness/cli/version.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "harness/watch/lockstep_watch.h"
#include "reports/base/installed_path.h"
#include "reports/formats/renderer.h"
#include "reports/record/run_record.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// "mpi_openmpi" of lib/lockstep/lockstep_mpi_openmpi.so: the modules that were built.
std::vector<std::string> modules() {
  constexpr std::string_view kPrefix = "lockstep_";
  std::vector<std::string> names;
  std::error_code failure;
  for (const fs::directory_entry& file :
       fs::directory_iterator(installed_path("lib/lockstep", ""), failure)) {
    const std::string name = file.path().stem().string();
    if (name.starts_with(kPrefix) && file.path().extension() == ".so") {
      names.push_back(name.substr(kPrefix.size()));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> backends(const CatalogueVersion& catalogue) {
  if (!catalogue.torch) return {};
  std::vector<std::string> names = modules();
  names.insert(names.begin(), "gloo");
  return names;
}

Json null_if_empty(const std::string& text) { return text.empty() ? Json() : Json(text); }

/// Of the library that `watch` gives to jobs; null: it is not installed.
Json watch_interface() {
  const bool is_there = !installed_path("lib/lockstep/liblockstep_watch.so", "").empty();
  return is_there ? Json(LOCKSTEP_WATCH_INTERFACE) : Json();
}

}  // namespace

std::string version_as_text(const CatalogueVersion& catalogue) {
  return fmt::format("lockstep {}, {}\n", LOCKSTEP_VERSION,
                     catalogue.torch ? "torch " + *catalogue.torch : catalogue.lacks);
}

std::string version_as_json(const CatalogueVersion& catalogue) {
  const Json document = {{"schema", "lockstep.version"},
                         {"version", "1.0"},
                         {"lockstep", LOCKSTEP_VERSION},
                         {"torch", catalogue.torch ? Json(*catalogue.torch) : Json()},
                         {"catalogue_fault", null_if_empty(catalogue.fault)},
                         {"backends", backends(catalogue)},
                         {"formats", format_names()},
                         {"record", kSchemaVersion},
                         {"watch_interface", watch_interface()},
                         {"build_type", LOCKSTEP_BUILD_TYPE},
                         {"compiler", LOCKSTEP_COMPILER}};
  return document.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
