#include "reports/record/differing_settings.h"

namespace lockstep {

std::map<std::string, std::vector<Setting>> differing_settings(const JobRecord& job) {
  std::map<std::string, std::vector<Setting>> settings;
  for (const Setting& one : job.configuration) settings[one.name].push_back(one);
  std::erase_if(settings, [](const auto& one) { return one.second.size() < 2; });
  return settings;
}

std::map<std::string, std::vector<Setting>> differing_hyperparameters_of(const JobRecord& job) {
  std::map<std::string, std::vector<Setting>> settings = differing_settings(job);
  std::erase_if(settings, [](const auto& one) { return one.first.find('.') == one.first.npos; });
  return settings;
}

}  // namespace lockstep
