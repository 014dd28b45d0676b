#include "harness/scenario/axes.h"

#include <utility>

namespace lockstep {

Axis rank_axis(std::string name, std::vector<std::string> values, std::string default_value) {
  return {.name = std::move(name),
          .values = std::move(values),
          .default_value = std::move(default_value),
          .in_reference = false};
}

Axis switch_axis(std::string name, bool in_reference) {
  return {.name = std::move(name),
          .values = {"off", "on"},
          .default_value = "off",
          .in_reference = in_reference};
}

Axis dtype_axis(const std::vector<std::string>& more) {
  Axis axis{"dtype", {"float32", "float64"}, "float32"};
  axis.values.insert(axis.values.end(), more.begin(), more.end());
  return axis;
}

Axis accumulation_axis() { return {"accumulation", {"1", "2"}, "1"}; }

Axis bucket_axis() { return {"bucket", {"small", "standard"}, "small"}; }

Axis tiles_axis(std::string default_value) {
  return {"tiles", {"1", "2", "4"}, std::move(default_value)};
}

Axis optimizer_axis() { return {"optimizer", {"sgd", "adamw"}, "sgd"}; }

Axis wrapper_axis() { return rank_axis("wrapper", {"ddp", "by-hand"}, "ddp"); }

std::vector<Axis> ddp_axes(std::vector<Axis> first) {
  first.insert(first.end(), {
                                {"accumulation", {"1", "2", "4"}, "1"},
                                switch_axis("no_sync", false),
                                switch_axis("prior"),
                                switch_axis("bucket_view", false),
                                switch_axis("find_unused", false),
                                switch_axis("static_graph", false),
                                rank_axis("bucket", {"standard", "small"}, "standard"),
                                dtype_axis({"bfloat16"}),
                            });
  return first;
}

std::vector<Axis> checkpoint_axes(std::vector<Axis> more, std::vector<std::string> variants) {
  more.push_back({"batch", {"8", "16"}, "16"});
  more.push_back({"early_stop", {"on", "off"}, "on", std::move(variants)});
  std::vector<Axis> axes = ddp_axes(std::move(more));
  for (Axis& axis : axes) {
    if (axis.name == "accumulation") axis.values = {"1", "2"};
    if (axis.name == "dtype") axis.values = {"float32", "bfloat16"};
  }
  return axes;
}

}  // namespace lockstep
