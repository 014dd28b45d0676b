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

/// Perturbed copies of the reference: processes that repeat it with inputs that are off by one ulp
/// here and there. Their distance measures how far rounding differences propagate.
inline constexpr int kPerturbedReferences = 4;

/// The declared role of a variant. The judge never sees it: findings are compared with the
/// expectation afterwards.
///   buggy      the original bug
///   fixed      a correct repair
///   wrong_fix  an attempted repair that is not correct
///   latent     the bug is in the code, but these conditions hide it
///   reference  one process that computes the correct values from the shards of all ranks
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
  bool is_default = false;  ///< whether it is the axis' default

  /// The same choice; `is_default` is ignored.
  bool operator==(const AxisValue& other) const {
    return axis == other.axis && value == other.value;
  }
};

/// Treatment of the ranks' collectives.
///   off     none: the backend is called directly
///   log     each call is recorded in the rank's log
///   check   also compared, before it is made, with the calls of the other ranks of the machine
enum class Collectives { off, log, check };

template <>
struct Names<Collectives> {
  static constexpr std::array<std::string_view, 3> values{"off", "log", "check"};
};

/// Transport between ranks.
enum class Backend { gloo, mpi, nccl };

template <>
struct Names<Backend> {
  static constexpr std::array<std::string_view, 3> values{"gloo", "mpi", "nccl"};
};

/// Kind of the devices that ranks train on.
///   sim  virtual devices, in the host's memory
enum class DeviceKind { cpu, sim, cuda };

template <>
struct Names<DeviceKind> {
  static constexpr std::array<std::string_view, 3> values{"cpu", "sim", "cuda"};
};

/// One launch: scenario x variant x world size x axis values x backend x device.
struct Cell {
  std::string scenario;
  std::string variant;
  Role role = Role::buggy;
  int world_size = 0;
  std::vector<AxisValue> axes;  ///< one per axis that the variant depends on, in axis order
  Backend backend = Backend::gloo;
  DeviceKind device = DeviceKind::cpu;
  std::int64_t steps = 0;
  std::uint64_t seed = 0;  ///< added to every seed of the scenario; 0 is the published run
  int repetition = 1;      ///< from 1; running the same cell again increments it
  Collectives collectives = Collectives::log;
  /// The settings that the variant fixes; the scenario knows them, and records do not repeat them.
  std::vector<AxisValue> sets = {};

  bool operator==(const Cell&) const = default;
};

/// Folder of a cell in a run's:
/// `<scenario>/<variant>/w<world>[-backend=...][-device=...][-axis=value...]`. It names the backend
/// unless it is gloo, the device unless it is `default_device`, and every axis that is not at its
/// default. From the second repetition on, `-repetition=N` follows.
std::string folder_of(const Cell& cell, DeviceKind default_device = DeviceKind::cpu);

/// The choices that differ from their axis' default.
std::vector<AxisValue> unusual_choices(const Cell& cell);

/// Name of a cell in sentences: "loss-on-unwrapped-module/bypass, 2 ranks over mpi on sim,
/// tiles=4". Gloo and the CPU are not named.
std::string title_of(const Cell& cell);

/// Conditions of a cell apart from its variant: "2 ranks over mpi on sim, tiles=4".
std::string conditions(int world_size, Backend backend, DeviceKind device,
                       const std::vector<AxisValue>& axes);

/// " on sim"; empty for the CPU.
std::string on_device(DeviceKind device);

/// Whether the cell has a value on `axis`, chosen or set by its variant.
bool has_axis(const Cell& cell, std::string_view axis);

/// The value on `axis`, chosen or set by the variant. Throws std::out_of_range without one.
const std::string& axis_value(const Cell& cell, std::string_view axis);

/// Whether the cell has `value` on `axis`.
bool is_set(const Cell& cell, std::string_view axis, std::string_view value = "on");

/// The number on `axis`. Throws std::out_of_range without a value, std::invalid_argument if it
/// is not a number.
std::int64_t number_on(const Cell& cell, std::string_view axis);

/// An error that a cell is expected to raise, matched on a stable fragment of the genuine text.
struct ExpectedError {
  std::string fragment;
  std::int64_t step = 0;  ///< the step that raises it; 0: any
  std::int64_t lag = 0;   ///< steps between the damage and the error

  bool operator==(const ExpectedError&) const = default;
};

/// The declared result of a cell. A fixed or latent cell violates no claim, and raises only if the
/// repair is to refuse.
struct Expectation {
  std::vector<Claim> breaks;          ///< exactly these claims are violated
  std::vector<ExpectedError> raises;  ///< a raised error implies a break of `ranks finish`
  std::vector<std::string> meets;     ///< published tables matched to the printed digit, by id
  std::string not_applicable;         ///< the violated precondition; empty: the cell can be run
  /// No rank reaches the branch point in this cell, so no claim is decided.
  bool not_triggered = false;
  /// Symptom of the run, if `breaks` and `raises` do not determine it; absent: any.
  std::optional<SymptomKind> symptom = {};
  /// Properties that distinguish the fault from others that break the same claims; one claim each.
  std::vector<Pin> pins = {};

  bool operator==(const Expectation&) const = default;
};

}  // namespace lockstep
