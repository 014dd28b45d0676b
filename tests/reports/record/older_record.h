#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep {

/// The record in the format of schema 1.x; `version` is "1.4", for example.
inline nlohmann::ordered_json as_of_1(nlohmann::ordered_json document, const std::string& version) {
  using Json = nlohmann::ordered_json;
  const auto rename = [](Json& object, const char* now, const char* before) {
    if (!object.contains(now)) return;
    object[before] = object[now];
    object.erase(now);
  };
  const std::function<void(Json&)> all = [&](Json& node) {
    for (Json& inner : node) {
      if (inner.is_structured()) all(inner);
    }
    if (!node.is_object()) return;
    if (node.contains("last_output") && node.contains("order")) rename(node, "kind", "ending");
    if (node.contains("promise")) rename(node, "result", "outcome");
    if (node.contains("compiler")) rename(node, "digest", "fingerprint");
    rename(node, "phase", "point");
    rename(node, "attribution", "origin");
    rename(node, "symptom", "outcome");
    rename(node, "exits", "ends");
    rename(node, "mismatch", "missed_meeting");
    node.erase("manifest");
  };
  all(document);
  document["version"] = version;
  return document;
}

}  // namespace lockstep
