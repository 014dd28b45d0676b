#include "harness/verdict/steps_apart.h"

#include "harness/judge/values/held_tensors.h"

namespace lockstep {

void StepsApartByName::see(const StepView& step) {
  for (const HeldTensor& tensor : held_tensors(step, claim_, {})) add(step.number(), tensor);
  last_ = step.number();
}

void StepsApartByName::leave_out_idle() {
  if (claim_.kind != Kind::random_state) return;
  std::erase_if(by_name_, [&](const auto& course) {
    return course.second.compared > 1 && !moving_.contains(course.first);
  });
}

std::vector<std::string> StepsApartByName::compared() const {
  std::vector<std::string> names;
  for (const auto& [name, course] : by_name_) names.push_back(name);
  return names;
}

std::map<StepsApart, std::vector<std::string>> StepsApartByName::differing() const {
  std::map<StepsApart, std::vector<std::string>> alike;
  for (const auto& [name, course] : by_name_) {
    if (course.differing > 0) alike[course].push_back(name);
  }
  return alike;
}

void StepsApartByName::add(std::int64_t step, const HeldTensor& tensor) {
  if (!is_comparable(tensor)) return;
  const std::string& name = tensor.tensor->name;
  for (const auto& [rank, value] : tensor.holders) {
    const auto [known, is_new] = values_.try_emplace({name, rank}, value->digest);
    if (!is_new && known->second != value->digest) moving_.insert(name);
  }
  if (tensor.holders.size() < 2) return;
  StepsApart& course = by_name_[name];
  ++course.compared;
  course.last_compared = step;
  auto groups = groups_of(tensor);
  if (groups.size() < 2) return;
  if (course.differing++ == 0) {
    course.first = step;
    course.groups = std::move(groups);
  }
  course.last = step;
}

}  // namespace lockstep
