# Environments of Python below the user's cache, for the tests that use real trainers. Source it;
# `sources` is the folder of the project.
#
# The functions print a folder, and fail if packages cannot be installed. Only one process installs at a time.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep

# made FOLDER COMMAND...: runs the command, which makes the environment, unless that was done.
made() {
  mkdir -p "$cache"
  (
    flock 9
    [[ -e $1/installed ]] || { rm -rf "$1" && "$2" "$1" "${@:3}" >&2 && touch "$1/installed"; } ||
      { echo "$1 cannot be installed here" >&2; exit 1; }
  ) 9>"$cache/environments.lock" && echo "$1"
}

install_trainers() {  # FOLDER
  python3 -m venv "$1" && "$1/bin/pip" install --quiet torch==2.11.0 numpy transformers accelerate datasets trl \
    lightning deepspeed
}

install_on_torch() {  # FOLDER PACKAGE...
  local inner torch where='import sysconfig; print(sysconfig.get_path("purelib"))'
  torch=$("$sources/ci/torch-environment" 2.11.0) && "$torch" -m venv "$1" && inner=$("$1/bin/python" -c "$where") &&
    "$torch" -c "$where" >"$inner/torch.pth" && "$1/bin/pip" install --quiet wheel setuptools==80.9.0 &&
    DS_BUILD_OPS=0 DS_ACCELERATOR=cpu "$1/bin/pip" install --quiet --no-build-isolation "${@:2}"
}

# The trainers: newest releases, with torch 2.11.0.
trainers_environment() {
  made "$cache/watch-trainers" install_trainers
}

# PACKAGE==VERSION..., the first of which names the folder, on top of torch 2.11.0.
environment_with() {
  made "$cache/upstream/${1/==/-}" install_on_torch "$@"
}
