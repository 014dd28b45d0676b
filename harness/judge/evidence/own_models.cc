#include "harness/judge/evidence/own_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "reports/base/plain_text.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// The parameters of a model, each once.
using Model = std::vector<const ObservedTensor*>;

Model model_in(ObservedTensors tensors) {
  Model model;
  std::set<std::string_view> names;
  for (const KnownTensor* const known : tensors) {
    const ObservedTensor& tensor = known->tensor;
    const bool is_new = tensor.kind == Kind::parameter && names.insert(tensor.name).second;
    if (is_new) model.push_back(&tensor);
  }
  return model;
}

std::vector<std::string_view> names_of(const Model& model) {
  std::vector<std::string_view> names;
  for (const ObservedTensor* tensor : model) names.push_back(tensor->name);
  return names;
}

/// The beginnings of two names that end alike, at a point of a name or at its begin: "net." and ""
/// of "net.0.weight" and "0.weight". Empty: their last parts differ.
std::optional<std::pair<std::string, std::string>> beginnings_of(std::string_view one,
                                                                 std::string_view other) {
  for (std::size_t from = 0; from <= one.size();) {
    const std::string_view end = one.substr(from);
    const bool is_end = other.ends_with(end) &&
                        (end.size() == other.size() || other[other.size() - end.size() - 1] == '.');
    if (is_end) {
      return std::pair(std::string(one.substr(0, from)),
                       std::string(other.substr(0, other.size() - end.size())));
    }
    const std::size_t point = one.find('.', from);
    if (point == std::string_view::npos) break;
    from = point + 1;
  }
  return std::nullopt;
}

std::string without_digits(std::string text) {
  std::erase_if(text, [](unsigned char one) { return std::isdigit(one) != 0; });
  return text;
}

bool is_alike(const ObservedTensor& a, const ObservedTensor& b) {
  return a.dtype == b.dtype && a.global_shape == b.global_shape && a.offset == b.offset &&
         a.local_shape == b.local_shape && a.replica_group == b.replica_group;
}

/// The beginnings by which `one` has the names of `other`; empty: it has others.
std::optional<std::pair<std::string, std::string>> beginnings_of(const Model& one,
                                                                 const Model& other) {
  if (one.empty() || one.size() != other.size()) return std::nullopt;
  auto found = beginnings_of(one[0]->name, other[0]->name);
  if (!found || without_digits(found->first) == without_digits(found->second)) return std::nullopt;
  const auto& [own, common] = *found;
  const std::vector<std::string_view> names = names_of(other);
  const std::set<std::string_view> known(names.begin(), names.end());
  for (std::size_t i = 0; i < one.size(); ++i) {
    const std::string& name = one[i]->name;
    const bool fits = name.starts_with(own) && common + name.substr(own.size()) == names[i] &&
                      is_alike(*one[i], *other[i]) && !known.contains(name);
    if (!fits) return std::nullopt;
  }
  return found;
}

/// The ranks of each list of names, in the order of their lowest rank.
std::vector<std::vector<std::size_t>> ranks_by_names(const std::vector<Model>& models) {
  std::map<std::vector<std::string_view>, std::size_t> places;
  std::vector<std::vector<std::size_t>> ranks;
  for (std::size_t rank = 0; rank < models.size(); ++rank) {
    if (models[rank].empty()) continue;
    const auto [place, is_new] = places.emplace(names_of(models[rank]), ranks.size());
    if (is_new) ranks.emplace_back();
    ranks[place->second].push_back(rank);
  }
  return ranks;
}

/// Those of most ranks; of as many, the shorter names.
const Model& common_model(const std::vector<Model>& models,
                          const std::vector<std::vector<std::size_t>>& ranks) {
  const auto is_less = [&](const auto& a, const auto& b) {
    if (a.size() != b.size()) return a.size() < b.size();
    return models[a[0]][0]->name.size() > models[b[0]][0]->name.size();
  };
  return models[std::ranges::max_element(ranks, is_less)->front()];
}

/// The parameters of any rank's part of a pipeline.
std::set<std::string_view> parameters_of_parts(const std::vector<ObservedTensors>& tensors) {
  std::set<std::string_view> names;
  for (const auto& rank : tensors) {
    for (const KnownTensor* const known : rank) {
      const ObservedTensor& tensor = known->tensor;
      const bool is_of_part = tensor.kind == Kind::parameter && !tensor.replica_group.empty();
      if (is_of_part) names.insert(tensor.name);
    }
  }
  return names;
}

/// What a rank keeps of a pipeline: parameters that it holds in no stage, and others do.
std::set<std::string> kept_by(ObservedTensors rank, const std::set<std::string_view>& of_parts) {
  std::set<std::string> kept;
  std::set<std::string_view> own;
  for (const KnownTensor* const known : rank) {
    const ObservedTensor& tensor = known->tensor;
    if (tensor.kind != Kind::parameter) continue;
    const bool may_be_kept = tensor.replica_group.empty() && tensor.phase == Phase::pre_forward;
    if (!may_be_kept) {
      own.insert(tensor.name);
    } else if (of_parts.contains(tensor.name)) {
      kept.insert(tensor.name);
    }
  }
  std::erase_if(kept, [&](const std::string& name) { return own.contains(name); });
  return kept;
}

bool has_name_in_model(Kind kind) {
  return kind != Kind::loss && kind != Kind::memory && kind != Kind::data &&
         kind != Kind::random_state;
}

}  // namespace

bool OwnModel::leaves_out(const ObservedTensor& tensor) const {
  return tensor.kind == Kind::parameter && kept.contains(tensor.name);
}

std::string OwnModel::common_name(const ObservedTensor& tensor) const {
  const bool is_other =
      own != common && has_name_in_model(tensor.kind) && tensor.name->starts_with(own);
  return is_other ? common + tensor.name->substr(own.size()) : *tensor.name;
}

std::vector<OwnModel> own_models(const std::vector<ObservedTensors>& tensors) {
  std::vector<OwnModel> found(tensors.size());
  const std::set<std::string_view> of_parts = parameters_of_parts(tensors);
  for (std::size_t i = 0; i < found.size(); ++i) found[i].kept = kept_by(tensors[i], of_parts);
  std::vector<Model> models;
  models.reserve(tensors.size());
  for (const auto& rank : tensors) models.push_back(model_in(rank));
  const auto ranks = ranks_by_names(models);
  if (ranks.size() < 2) return found;
  const Model& common = common_model(models, ranks);
  for (const std::vector<std::size_t>& group : ranks) {
    const auto beginnings = beginnings_of(models[group[0]], common);
    if (!beginnings) continue;
    for (const std::size_t rank : group) {
      std::tie(found[rank].own, found[rank].common) = *beginnings;
    }
  }
  return found;
}

std::string own_names_in_words(const std::vector<OwnModel>& models) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < models.size(); ++rank) {
    const OwnModel& model = models[rank];
    if (model.own != model.common) {
      ranks[{model.own, model.common}].push_back(static_cast<int>(rank));
    }
  }
  std::string text;
  for (const auto& [beginnings, those] : ranks) {
    const auto& [own, common] = beginnings;
    text += fmt::format(
        "{}{} name{} the parameters {}*, which are those of the other ranks named "
        "{}*: they were compared in their order",
        text.empty() ? "" : "; ", ranks_in_words(those), those.size() == 1 ? "s" : "", own, common);
  }
  return text;
}

}  // namespace lockstep
