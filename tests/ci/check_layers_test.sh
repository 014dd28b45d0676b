#!/usr/bin/env bash
# Plants one violation after another in a tree of its own and sees that ci/check-layers finds it at
# its path and line.
set -euo pipefail

check=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/ci/check-layers
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
status=0

# Everything that is allowed at the edge of what is not.
write_healthy() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/{reports/base,reports/record,reference,scenarios/scale,tests/unit}
  mkdir -p "$tree"/harness/{record,launch,judge/values,observe,comm,train/nn,cli}
  printf '#pragma once\n#include <ATen/core/Tensor.h>\n' >"$tree/harness/train/nn/a.h"
  printf '#pragma once\n#include <string>\n' >"$tree/reports/base/a.h"
  printf '#pragma once\n#include <ATen/ATen.h>\n' >"$tree/harness/train/nn/private.h"
  printf '#include "harness/train/nn/private.h"\n' >"$tree/harness/train/nn/b.cc"
  printf '#include <torch/csrc/distributed/c10d/reducer.hpp>\n' >"$tree/harness/train/nn/a.cc"
  printf '#include "harness/train/nn/a.h"\n#include <ATen/ops/ones.h>\n' >"$tree/scenarios/scale/a.cc"
  printf '#include "reference/a.h"\n#include "reports/base/a.h"\n' >"$tree/harness/cli/a.cc"
}

expect() {  # WANTED STATUS, WANTED OUTPUT
  local code=0 output
  output=$("$check" "$tree" 2>&1) || code=$?
  [[ $code -eq $1 && $output == "$2" ]] && return
  printf 'wanted %s: %s\ngot %s: %s\n' "$1" "$2" "$code" "$output" >&2
  status=1
}

planted() {  # PATH, LINES, WANTED LINE AND SENTENCE
  write_healthy
  mkdir -p "$(dirname "$tree/$1")"
  # shellcheck disable=SC2059  # the newlines of the lines are meant
  printf "$2" >"$tree/$1"
  expect 1 "$1:$3"
}

write_healthy
expect 0 ''

once='#pragma once\n'
planted reports/base/b.cc '#include "reports/record/cell.h"\n' \
  '1: reports/base may not include reports/record'
planted reports/record/b.cc '// why\n#include "harness/judge/judge.h"\n' \
  '2: reports/record may not include harness/judge'
planted harness/judge/a.cc '#include "reports/base/error.h"\n#include "reports/formats/matrix.h"\n' \
  '2: harness/judge may not include reports/formats'
planted reference/b.cc '#include "harness/record/journal.h"\n' \
  '1: reference may not include harness/record'
planted harness/record/b.h "$once"'#include "harness/judge/judge.h"\n' \
  '2: harness/record may not include harness/judge'
planted harness/launch/b.cc '#include "harness/record/journal.h"\n' \
  '1: harness/launch may not include harness/record'
planted harness/judge/b.cc '#include "harness/cli/program.h"\n' \
  '1: harness/judge may not include harness/cli'
planted harness/comm/b.cc '#  include "harness/train/ddp/ddp.h"\n' \
  '1: harness/comm may not include harness/train/ddp'
planted harness/train/nn/c.cc '#include "harness/train/sharded/zero.h"\n' \
  '1: harness/train/nn may not include harness/train/sharded'
planted scenarios/scale/b.cc '#include "reference/published_table.h"\n' \
  '1: scenarios may not include reference'
planted harness/train/nn/b.cc '#include "ddp.h"\n' \
  '1: "ddp.h" is not the path of a file from the root of the project'
planted harness/judge/values/b.cc '#include "harness/judge/collectives/meetings.h"\n' \
  '1: harness/judge/values may not include harness/judge/collectives'
planted harness/judge/new/b.cc '#include <string>\n' \
  '1: ci/check-layers does not know the folder harness/judge/new; say there what it may include'
planted harness/new/b.cc '#include <string>\n' \
  '1: ci/check-layers does not know the folder harness/new; say there what it may include'
planted reports/base/b.h '#include <string>\n' '1: a header without #pragma once'
planted harness/judge/c.cc '#include <ATen/core/Tensor.h>\n' \
  "1: harness/judge builds without torch, but <ATen/core/Tensor.h> is torch's"
planted reference/c.h "$once"'#include <c10/util/Exception.h>\n' \
  "2: reference builds without torch, but <c10/util/Exception.h> is torch's"
planted scenarios/scale/d.cc '#include "harness/train/nn/private.h"\n' \
  '1: harness/train/nn/private.h is private to harness/train/nn: it includes <ATen/ATen.h>, headers for others include <ATen/core/Tensor.h> of torch at most'
planted scenarios/scale/c.cc '#include <torch/torch.h>\n' \
  '1: a scenario does not include <torch/torch.h>: it takes 20 s to compile'
planted harness/observe/c.cc '#include <torch/csrc/distributed/c10d/reducer.hpp>\n' \
  '1: <torch/csrc/distributed/c10d/reducer.hpp> belongs into harness/comm and harness/train'

# The table of the document is that of the program, and nobody writes another one there.
document=$(dirname "$check")/../docs/architecture.md
stale='docs/architecture.md:1: the table of folders is not that of ci/check-layers: call it with --write'
write_healthy
mkdir "$tree/docs"
cp "$document" "$tree/docs"
expect 0 ''
sed -i 's/| `reference` |/| `reference` | the moon and/' "$tree/docs/architecture.md"
expect 1 "$stale"
echo '# Architecture' >"$tree/docs/architecture.md"
expect 1 "$stale"

rm -rf "${tree:?}"/*
expect 1 "ci/check-layers: there are no sources below $tree"
exit $status
