#!/usr/bin/env bash
# Brings .venv in step with its lock and pyproject.toml; does nothing, in milliseconds, when it is in step.
# Called by `make setup`; takes PYTHON, ACCELERATOR (cpu | gpu) and TORCH_INDEX from the environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Byte code written now is not compiled by a dozen processes at once later.
unset PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME VIRTUAL_ENV

UV=uv==0.13.9
venv=.venv
say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: error: %s\n' "$*" >&2; exit 2; }

if [ -z "${ACCELERATOR:-}" ]; then
  if nvidia-smi -L >/dev/null 2>&1; then ACCELERATOR=gpu; else ACCELERATOR=cpu; fi
fi
[ "$ACCELERATOR" = cpu ] || [ "$ACCELERATOR" = gpu ] || fail "ACCELERATOR must be cpu or gpu, got '$ACCELERATOR'"
PYTHON=${PYTHON:-$(command -v python3.11 || command -v python3 || true)}
[ -n "$PYTHON" ] || fail "no Python found; install Python 3.11, or name one with PYTHON=..."
version=$("$PYTHON" -c 'import sys; print("%d%d" % sys.version_info[:2])') || fail "$PYTHON does not run"
lock=requirements/$ACCELERATOR-py$version.txt
[ -f "$lock" ] || fail "no lock for $ACCELERATOR and Python ${version:0:1}.${version:1} ($PYTHON); there are: $(ls requirements | grep -- -py | tr '\n' ' ')- name another Python with PYTHON=..."

# The path belongs to the hash: a virtual environment does not survive a move.
hash() { { pwd; cat "$@"; } | sha256sum | cut -d' ' -f1; }
packages=$(hash "$lock" requirements/install.sh)
project=$(hash "$lock" requirements/install.sh pyproject.toml)
read_stamp() { cat "$venv/$1.stamp" 2>/dev/null || true; }
[ "$(read_stamp project)" = "$project" ] && exit 0

mkdir -p .forager
exec 9>.forager/setup.lock
flock -n 9 || { say "another set-up of this folder is running; waiting for it"; flock 9; }
[ "$(read_stamp project)" = "$project" ] && exit 0
log=.forager/setup.log
: >"$log"
quietly() {
  "$@" >>"$log" 2>&1 || { tail -n 25 "$log" >&2; fail "failed: $* (whole output: $log)"; }
}

start=$SECONDS
if [ "$(read_stamp packages)" != "$packages" ]; then
  # No stamp means a new, changed or interrupted environment: only a fresh one is surely whole.
  say "installing $(grep -c == "$lock") packages from $lock into $venv (a few minutes, once)"
  rm -rf "$venv"
  "$PYTHON" -m venv "$venv" >>"$log" 2>&1 || fail "$PYTHON -m venv failed; on Debian and Ubuntu: apt install python3-venv"
  quietly "$venv/bin/python" -m pip install --no-deps --progress-bar off "$UV"
  if [ "$ACCELERATOR" = cpu ]; then
    torch=$(grep '^torch==' "$lock")
    say "$torch"
    # What pip finds on its own first (a mirror, a folder of wheels), then PyTorch's index of CPU builds.
    "$venv/bin/python" -m pip install --no-deps --no-compile --progress-bar off "$torch" >>"$log" 2>&1 ||
      quietly "$venv/bin/python" -m pip install --no-deps --no-compile --progress-bar off --index-url "$TORCH_INDEX" "$torch"
  fi
  say "all other packages"
  # uv takes 20 s where pip takes minutes; pip knows the user's mirrors and certificates.
  "$venv/bin/uv" pip install --python "$venv/bin/python" --no-deps -r "$lock" >>"$log" 2>&1 || {
    say "uv could not (see $log); pip does it, which takes longer"
    quietly "$venv/bin/python" -m pip install --no-deps --no-compile --progress-bar off -r "$lock"
  }
  say "compiling to byte code ($((SECONDS - start)) s so far)"
  # What is never imported here, and the hundreds of model families, would double the time.
  "$venv/bin/python" -m compileall -q -j 0 -x '/(tests?|rllib)/|/transformers/models/|/torch/testing/' "$venv/lib" >>"$log" 2>&1 ||
    say "some files of some packages do not compile for this Python (see $log); harmless"
  echo "$packages" >"$venv/packages.stamp"
fi
quietly "$venv/bin/uv" pip install --python "$venv/bin/python" --no-deps --no-build-isolation -e .
echo "$project" >"$venv/project.stamp"
say "$venv is ready ($((SECONDS - start)) s)"
