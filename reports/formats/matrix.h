#pragma once

#include <string>
#include <vector>

#include "reports/formats/sections.h"

namespace lockstep {

/// A cell of a matrix in a line.
struct MatrixLine {
  const ShownCell* cell = nullptr;
  char mark = ' ';     ///< '!': not as expected; '?': could not be decided
  std::string choice;  ///< "k=3, view=on": what is no default and not shared with its variant
  std::string text;    ///< the symptom
};

/// The cells of one variant, in the order of the record.
struct MatrixVariant {
  std::string title;  ///< "bypass (buggy), optimizer=adamw, 4 cells": with what they share
  std::vector<MatrixLine> lines;
};

/// The lines of a section, variant by variant. The cells of a reference that are all right are one
/// line: they only say that it ran. Where the section is no matrix, its title says the choices.
std::vector<MatrixVariant> matrix_lines(const Section& section);

/// "k=3, view=on: ranks differ from step 1 on: w", behind the title where a variant has one line
/// only.
std::string line_text(const MatrixVariant& variant, const MatrixLine& line);

/// The cells that are not as expected, but for those that were not run: a matrix tells their
/// findings alone.
std::vector<const ShownCell*> conspicuous_cells(const Section& section);

/// What the marks mean, which values stand for axes that are not named, and which tables of a
/// matrix only stand in the record.
std::string matrix_footnote(const Section& section);

}  // namespace lockstep
