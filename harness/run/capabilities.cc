#include "harness/run/capabilities.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "harness/comm/modules.h"
#include "harness/comm/process_group.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

constexpr const char* kGpus = "gpus";
constexpr int kMostGpus = 1024;

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string how_to_build(Backend backend) {
  if (backend == Backend::mpi) {
    return "install libopenmpi-dev or libmpich-dev and build Lockstep again, or use gloo";
  }
  return "build Lockstep with a torch for CUDA, as pip has it, or use gloo";
}

std::vector<std::string> known_requirements() {
  std::vector<std::string> names = all_names<Backend>();
  for (const std::string& launcher : known_launchers()) names.push_back(launcher);
  names.emplace_back("gpus=N");
  return names;
}

Requirement parse_requirement(const std::string& word) {
  const auto equals = word.find('=');
  if (word.substr(0, equals) == kGpus) {
    int count = 0;
    const char* const end = word.data() + word.size();
    const char* const begin = equals == word.npos ? end : word.data() + equals + 1;
    const auto [parsed, failure] = std::from_chars(begin, end, count);
    if (failure == std::errc() && parsed == end && count >= 1 && count <= kMostGpus) {
      return {kGpus, count};
    }
    throw bad_value("--require", word, fmt::format("gpus=N, N from 1 to {}", kMostGpus));
  }
  if (parse<Backend>(word) || contains(known_launchers(), word)) return {word, 0};
  throw unknown_name("requirement", word, known_requirements());
}

Capability find_capability(const std::string& name) {
  if (name == kGpus) return find_gpu_capability(kAnswerLimit);
  if (const auto backend = parse<Backend>(name)) return find_backend_capability(*backend);
  return find_launcher_capability(name, kAnswerLimit);
}

/// Empty if it is met.
std::string unmet_sentence(const Requirement& requirement, const Capability& found) {
  if (!found.is_there) {
    const std::string what =
        requirement.name == kGpus ? fmt::format("gpus={}", requirement.count) : requirement.name;
    return unmet_requirement(what, found.text, found.remedy);
  }
  if (found.count >= requirement.count) return {};
  return unmet_requirement(
      fmt::format("gpus={}", requirement.count),
      fmt::format("there {} {} ({})", found.count == 1 ? "is" : "are", found.count, found.text),
      "ask for fewer, or make sure that CUDA_VISIBLE_DEVICES hides none");
}

}  // namespace

Capability find_backend_capability(Backend backend, std::chrono::milliseconds limit) {
  const std::string called(name(backend));
  if (!is_built(backend)) {
    return {called, false, 0, "not in this build", how_to_build(backend)};
  }
  if (backend == Backend::mpi) {
    return {called, true, 0, fmt::format("built in for {}", fmt::join(built_mpis(), " and ")), ""};
  }
  if (backend != Backend::nccl) return {called, true, 0, "built in", ""};
  const Capability gpus = find_gpu_capability(limit);
  if (gpus.is_there) return {called, true, 0, "built in, for " + gpus.text, ""};
  return {called, false, 0, "built in, but there is no GPU: " + gpus.text, gpus.remedy};
}

void check_backend(Backend backend) {
  if (!is_built(backend)) {
    throw Error(Error::Kind::usage, backend_not_built(name(backend), how_to_build(backend)));
  }
}

GpusHere gpus_for_plan(const Capability& gpus) {
  GpusHere here;
  here.count = gpus.count;
  if (!gpus.is_there) here.why_none = fmt::format("{}. Remedy: {}", gpus.text, gpus.remedy);
  here.are_shared = are_gpus_shared();
  return here;
}

std::vector<Requirement> parse_requirements(const std::string& list) {
  std::vector<Requirement> requirements;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != list.npos; begin = end + 1) {
    end = list.find(',', begin);
    const std::string word = list.substr(begin, end - begin);
    if (word.empty()) throw bad_value("--require", list, "names with one comma between them");
    requirements.push_back(parse_requirement(word));
  }
  return requirements;
}

void check_requirements(const std::vector<Requirement>& requirements,
                        const std::optional<Capability>& gpus) {
  std::map<std::string, Capability> found;
  if (gpus) found.emplace(kGpus, *gpus);
  std::set<std::string> sentences;
  std::string text;
  for (const Requirement& requirement : requirements) {
    const auto [entry, is_new] = found.try_emplace(requirement.name);
    if (is_new) entry->second = find_capability(requirement.name);
    const std::string sentence = unmet_sentence(requirement, entry->second);
    if (sentence.empty() || !sentences.insert(sentence).second) continue;
    text += (text.empty() ? "" : "\n") + sentence;
  }
  if (!text.empty()) throw Error(Error::Kind::unmet, text);
}

}  // namespace lockstep
