#include "harness/record/flat_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "reports/base/error.h"

namespace lockstep {

namespace {

using Json = nlohmann::json;

/// Sees a document before it is in memory: nested JSON is copied, printed and freed recursively.
class FlatnessCheck : public nlohmann::json_sax<Json> {
 public:
  FlatnessCheck(const std::string& text, const std::string& path, std::string_view what,
                std::size_t most_levels)
      : text_(text), path_(path), what_(what), most_levels_(most_levels) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(Json::number_integer_t) override { return true; }
  bool number_unsigned(Json::number_unsigned_t) override { return true; }
  bool number_float(Json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }

  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    if (keys_.back().insert(name).second) return true;
    throw malformed(path_, 0, 0, fmt::format("every key once in {}", what_), name + " twice");
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    throw malformed(path_, 0, 0, fmt::format("{} in JSON", what_), text_);
  }

 private:
  bool open() {
    if (keys_.size() == most_levels_) {
      throw malformed(path_, 0, 0, fmt::format("{} of at most {} levels", what_, most_levels_),
                      text_);
    }
    keys_.emplace_back();
    return true;
  }

  bool close() {
    keys_.pop_back();
    return true;
  }

  const std::string& text_;
  const std::string& path_;
  std::string_view what_;
  std::size_t most_levels_;
  std::vector<std::set<std::string>> keys_;  ///< of each object or array that is open
};

}  // namespace

nlohmann::json parse_flat_json(const std::string& text, const std::string& path,
                               std::string_view what, std::size_t most_levels) {
  FlatnessCheck check(text, path, what, most_levels);
  Json::sax_parse(text, &check);
  return Json::parse(text);
}

}  // namespace lockstep
