#pragma once

#include <string>
#include <vector>

#include "reports/formats/sections.h"

namespace lockstep {

/// A cell of a matrix on one line.
struct MatrixLine {
  const ShownCell* cell = nullptr;
  char mark = ' ';     ///< '!': not as expected; '?': undecided
  std::string choice;  ///< "k=3, view=on": choices that are not the default and not shared by the
                       ///< variant
  std::string text;    ///< the symptom
};

/// The cells of one variant, in the order of the record.
struct MatrixVariant {
  std::string title;  ///< "bypass (buggy), optimizer=adamw, 4 cells": with their shared choices
  std::vector<MatrixLine> lines;
};

/// The lines of a section, variant by variant. A reference has one line for all its cells if they
/// are right, because they only show that it ran. If the section is no matrix, its title has the
/// choices.
std::vector<MatrixVariant> matrix_lines(const Section& section);

/// "k=3, view=on: ranks differ from step 1 on: w", after the title if a variant has only one line.
std::string line_text(const MatrixVariant& variant, const MatrixLine& line);

/// Unexpected cells that were run: a matrix shows findings only for these.
std::vector<const ShownCell*> conspicuous_cells(const Section& section);

/// Explains the marks, lists the values of axes that are not named, and the tables of a matrix that
/// are only in the record.
std::string matrix_footnote(const Section& section);

}  // namespace lockstep
