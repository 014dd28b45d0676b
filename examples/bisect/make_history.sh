#!/usr/bin/env bash
# Makes a git repository with eight commits of train.py: make_history.sh FOLDER
#
# The fourth commit cannot be run, and the sixth no longer reduces the gradient of the bias. The first
# one is tagged v1. docs/ci.md finds the sixth by `git bisect run`.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/train.py
mkdir -p "$1"
cd "$1"
git init --quiet --initial-branch main
git config user.name Example
git config user.email example@example.org
git config commit.gpgsign false
echo runs/ >.gitignore

commit() { git add --all && git commit --quiet --message "$1"; }
change() {  # MESSAGE SED-COMMAND
  sed -i "$2" train.py
  commit "$1"
}
cp "$source" train.py
commit 'train a small model'
git tag v1
change 'use momentum' 's/lr=0.1)/lr=0.1, momentum=0.9)/'
change 'train a little longer' 's/^STEPS = 4/STEPS = 5/'
change 'print the loss' 's/^\( *\)optimizer.step()/&\n\1print(loss/'
change 'print the right loss' '/print(loss/d'
change 'reduce matrices only' 's/for parameter in model.parameters()/& if parameter.dim() > 1/'
change 'use a larger batch' 's/randn(8, 4)/randn(16, 4)/'
change 'use another seed' 's/manual_seed(0)/manual_seed(3)/'
