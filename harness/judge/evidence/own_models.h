#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/record/tensor_table.h"

namespace lockstep {

/// How the tensors of one rank of a job are read beside those of the others.
struct OwnModel {
  /// Its names begin with `own` where those of the others begin with `common`: it holds the model
  /// in another module. Equal: they are the same.
  std::string own;
  std::string common;
  /// Parameters of whole models that it keeps, of which other ranks train the parts of a pipeline.
  std::set<std::string> kept;

  /// Whether the rank's tensor is none of the training.
  bool leaves_out(const ObservedTensor& tensor) const;

  /// The name of a tensor of the model among the names of the others.
  std::string common_name(const ObservedTensor& tensor) const;
};

/// What a rank observed, in the order of its first observation.
using ObservedTensors = std::span<const KnownTensor* const>;

/// The models of all ranks, from the tensors that each observed. Ranks hold one model in different
/// modules if they have no name in common, and names follow from each other by another beginning,
/// in this order and with the same shapes. A beginning with another number is another part of a
/// model.
std::vector<OwnModel> own_models(const std::vector<ObservedTensors>& tensors);

/// "rank 0 names the parameters net.*, which are those of the other ranks named *: they were
/// compared in their order"; empty: all ranks have the same names.
std::string own_names_in_words(const std::vector<OwnModel>& models);

}  // namespace lockstep
