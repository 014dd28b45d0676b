#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record/claim.h"
#include "reports/record/pin.h"
#include "reports/record/symptom.h"

namespace lockstep {

/// Processes that compute the reference once more, each on inputs that are off by one ulp here and
/// there: how far they get apart measures how far rounding differences are carried.
inline constexpr int kPerturbedReferences = 4;

/// What a variant is said to be. The judge never sees it: its findings are compared with the
/// expectation afterwards.
///   buggy      the bug, as it was
///   fixed      a repair that is right
///   wrong_fix  a repair that was tried and is not right
///   latent     the bug is in the code and these conditions hide it
///   reference  one process that computes what is right, from the shards of all ranks
enum class Role { buggy, fixed, wrong_fix, latent, reference };

template <>
struct Names<Role> {
  static constexpr std::array<std::string_view, 5> values{"buggy", "fixed", "wrong-fix", "latent",
                                                          "reference"};
};

/// One choice on one axis: `tiles=4`.
struct AxisValue {
  std::string axis;
  std::string value;
  bool is_default = false;  ///< whether it is the value of its axis where none is set

  /// The same choice, whichever value is its axis' default.
  bool operator==(const AxisValue& other) const {
    return axis == other.axis && value == other.value;
  }
};

/// What becomes of the collectives that ranks call.
///   off     nothing: the backend is called as it is
///   log     each is noted in the rank's log
///   check   and held against what the other ranks of the machine called, before it is made
enum class Collectives { off, log, check };

template <>
struct Names<Collectives> {
  static constexpr std::array<std::string_view, 3> values{"off", "log", "check"};
};

/// What one launch runs: scenario x variant x world size x axis values x backend x device.
struct Cell {
  std::string scenario;
  std::string variant;
  Role role = Role::buggy;
  int world_size = 0;
  std::vector<AxisValue> axes;  ///< one per axis that the variant depends on, in their order
  std::string backend = "gloo";
  std::string device = "cpu";  ///< kind of the devices that it trains on: cpu, sim, cuda
  std::int64_t steps = 0;
  std::uint64_t seed = 0;  ///< added to every seed of the scenario; 0 is the published run
  int repetition = 1;      ///< from 1; the same cell run again has the next number
  Collectives collectives = Collectives::log;
  /// What the variant fixes; the scenario knows it, and records do not repeat it.
  std::vector<AxisValue> sets = {};

  bool operator==(const Cell&) const = default;
};

/// Folder of a cell inside a run's:
/// `<scenario>/<variant>/w<world>[-backend=...][-device=...][-axis=value...]` with the backend
/// where it is not gloo, the device where it is not `default_device` and every axis that is not at
/// its default, from the second repetition on with `-repetition=N` behind.
std::string folder_of(const Cell& cell, std::string_view default_device = "cpu");

/// The choices that are not their axis' default.
std::vector<AxisValue> unusual_choices(const Cell& cell);

/// How a sentence names a cell: "loss-on-unwrapped-module/bypass, 2 ranks over mpi on sim,
/// tiles=4". Gloo and the CPU are not named.
std::string title_of(const Cell& cell);

/// What the cells of a scenario differ in beside the variant: "2 ranks over mpi on sim, tiles=4".
std::string conditions(int world_size, std::string_view backend, std::string_view device,
                       const std::vector<AxisValue>& axes);

/// " on sim"; empty for the CPU.
std::string on_device(std::string_view device);

/// Whether the cell has a value on `axis`, chosen or set by its variant.
bool has_axis(const Cell& cell, std::string_view axis);

/// The value on `axis`, chosen or set by the variant. Throws std::out_of_range without one.
const std::string& axis_value(const Cell& cell, std::string_view axis);

/// Whether the cell has `value` on `axis`.
bool is_set(const Cell& cell, std::string_view axis, std::string_view value = "on");

/// The number on `axis`. Throws std::out_of_range without a value, std::invalid_argument where it is
/// no number.
std::int64_t number_on(const Cell& cell, std::string_view axis);

/// An error that a cell is expected to raise, matched on a stable fragment of the genuine text.
struct ExpectedError {
  std::string fragment;
  std::int64_t step = 0;  ///< the step in which it comes; 0: any
  std::int64_t lag = 0;   ///< steps between the damage and the error

  bool operator==(const ExpectedError&) const = default;
};

/// What a cell declares about itself. A fixed or latent cell breaks nothing, and raises nothing but
/// where the repair is to refuse.
struct Expectation {
  std::vector<Claim> breaks;          ///< exactly these claims are violated
  std::vector<ExpectedError> raises;  ///< a raised error breaks `ranks finish` without saying so
  std::vector<std::string> meets;     ///< published tables met to the printed digit, by their id
  std::string not_applicable;         ///< the violated precondition; empty: the cell can be run
  /// The place where the variant parts is not reached in this cell, so that no claim is decided.
  bool not_triggered = false;
  /// What the run comes to, where `breaks` and `raises` leave it open; absent: nothing is promised.
  std::optional<SymptomKind> symptom = {};
  /// What tells the fault from others that break the same claims, of which each is about one.
  std::vector<Pin> pins = {};

  bool operator==(const Expectation&) const = default;
};

}  // namespace lockstep
