"""A LoRA adapter made of random numbers: it changes answers, and says nothing."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

RANK = 8


def write_adapter(model_folder: Path, folder: Path, seed: int) -> Path:
    """Write one for the attention's query projections of a Llama model; return its folder."""
    config = json.loads((model_folder / "config.json").read_text())
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    width = heads * config.get("head_dim", hidden // heads)
    rng = np.random.default_rng(seed)
    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        name = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        down = rng.normal(0, hidden**-0.5, (RANK, hidden))
        up = rng.normal(0, 0.5, (width, RANK))
        tensors[f"{name}.lora_A.weight"] = down.astype(np.float32)
        tensors[f"{name}.lora_B.weight"] = up.astype(np.float32)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    facts = {"peft_type": "LORA", "r": RANK, "lora_alpha": RANK, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps({**facts, "target_modules": ["q_proj"]}))
    return folder
