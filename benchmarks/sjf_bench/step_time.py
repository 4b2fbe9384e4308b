"""How long a step takes: a roofline for GPUs, a fitted line for measured machines.

The formulas and their symbols stand in docs/benchmarks.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sjf_bench.sim_types import EngineShape, StepShape
from sjf_bench.workload import WorkloadError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A dense decoder with grouped-query attention and a gated MLP, as its config.json says."""

    layers: int
    hidden: int
    mlp: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    bytes_per_value: int = 2  # bfloat16

    @property
    def parameters(self) -> int:
        """Parameters that each token is multiplied with: all but the input embedding."""
        attention = 2 * self.hidden * self.head_size * (self.heads + self.kv_heads)
        mlp = 3 * self.hidden * self.mlp
        return self.layers * (attention + mlp) + self.hidden * self.vocabulary

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes that one token keeps in the KV cache: keys and values of every layer."""
        return 2 * self.layers * self.kv_heads * self.head_size * self.bytes_per_value


@dataclass(frozen=True, slots=True)
class GPUSpec:
    """What one GPU reaches, in bfloat16 without sparsity.

    flops_per_s and bytes_per_s are peaks; the two shares say how much of them real kernels get.
    """

    flops_per_s: float
    flops_share: float
    bytes_per_s: float
    bytes_share: float
    memory_bytes: float
    link_bytes_per_s: float = 0.0  # to its peers, one direction


@dataclass(frozen=True, slots=True)
class RooflineStepTime:
    """t = t0 + max(2N(p+d)/F, bN/B) + 4HDl·a/F + K·c/B + all-reduces; see docs/benchmarks.md.

    fixed_s: t0, what a step costs whatever it computes.
    gpus: tensor-parallel size; weights, KV and FLOPs divide by it.
    """

    model: ModelSpec
    gpu: GPUSpec
    gpus: int = 1
    fixed_s: float = 0.002
    all_reduce_latency_s: float = 1e-5

    def __call__(self, shape: StepShape) -> float:
        """Seconds that a step of ``shape`` takes; always above 0."""
        model, gpu = self.model, self.gpu
        flops_per_s = self.gpus * gpu.flops_per_s * gpu.flops_share
        bytes_per_s = self.gpus * gpu.bytes_per_s * gpu.bytes_share
        tokens = shape.prefill_tokens + shape.decode_tokens
        matmuls_s = max(
            2 * model.parameters * tokens / flops_per_s,
            model.bytes_per_value * model.parameters / bytes_per_s,
        )
        pair_flops = 4 * model.heads * model.head_size * model.layers
        attention_s = pair_flops * shape.attention_pairs / flops_per_s
        kv_s = model.kv_bytes_per_token * shape.context_tokens / bytes_per_s
        return self.fixed_s + matmuls_s + attention_s + kv_s + self._all_reduces_s(tokens)

    def _all_reduces_s(self, tokens: int) -> float:
        """Two a layer; a ring moves 2(n-1)/n of the activations over each GPU's link."""
        if self.gpus == 1:
            return 0.0
        ring = 2 * (self.gpus - 1) / self.gpus
        moved = ring * tokens * self.model.hidden * self.model.bytes_per_value
        each_s = self.all_reduce_latency_s + moved / self.gpu.link_bytes_per_s
        return 2 * self.model.layers * each_s

    def kv_blocks(self, block_size: int, *, memory_share: float = 0.9) -> int:
        """Blocks that fit beside the weights; 5% of memory is left for activations.

        memory_share: vLLM's gpu_memory_utilization.
        """
        model = self.model
        weights = model.bytes_per_value * (model.parameters + model.hidden * model.vocabulary)
        room = (memory_share - 0.05) * self.gpus * self.gpu.memory_bytes - weights
        return int(room / model.kv_bytes_per_token / block_size)


@dataclass(frozen=True, slots=True)
class LinearStepTime:
    """t = fixed + a·prefill + b·decode + c·context + e·pairs, in seconds; fitted to a machine."""

    fixed_s: float
    prefill_token_s: float
    decode_token_s: float
    context_token_s: float
    attention_pair_s: float = 0.0

    def __call__(self, shape: StepShape) -> float:
        """Seconds that a step of ``shape`` takes."""
        return (
            self.fixed_s
            + self.prefill_token_s * shape.prefill_tokens
            + self.decode_token_s * shape.decode_tokens
            + self.context_token_s * shape.context_tokens
            + self.attention_pair_s * shape.attention_pairs
        )


LEAST_STEP_S = 1e-6  # a fit must leave time passing even for an empty step


def fit(rows: Sequence[tuple[StepShape, float]]) -> LinearStepTime:
    """Fit a LinearStepTime to measured steps by non-negative least squares on relative error.

    rows: step and seconds (> 0); at least as many as there are terms. Relative error, because a
    long prefill step would otherwise drown a hundred decode steps. Raises ValueError.
    """
    import numpy as np
    from scipy.optimize import nnls

    if len(rows) < 5:
        raise ValueError(f"{len(rows)} measured steps, at least 5 are needed to fit 5 terms")
    terms = np.array([_terms(shape) for shape, _ in rows], dtype=np.float64)
    seconds = np.array([each for _, each in rows], dtype=np.float64)
    if not (np.isfinite(seconds).all() and (seconds > 0).all()):
        raise ValueError("a measured step took no time, or none that is a number: drop that row")
    weighted = terms / seconds[:, None]
    scale = np.maximum(np.abs(weighted).max(axis=0), 1e-300)
    solved: NDArray[np.float64] = nnls(weighted / scale, np.ones(len(rows)))[0] / scale
    fixed, prefill, decode, context, pairs = (float(each) for each in solved)
    return LinearStepTime(max(fixed, LEAST_STEP_S), prefill, decode, context, pairs)


def _terms(shape: StepShape) -> tuple[float, ...]:
    return (
        1.0,
        shape.prefill_tokens,
        shape.decode_tokens,
        shape.context_tokens,
        shape.attention_pairs,
    )


# Shapes: config.json of each model; "The Llama 3 Herd of Models", arXiv 2407.21783, table 3.
LLAMA3_8B = ModelSpec(32, 4096, 14336, 32, 8, 128, 128256)
LLAMA3_70B = ModelSpec(80, 8192, 28672, 64, 8, 128, 128256)

# FLOP/s, bytes/s, memory, link: NVIDIA A100 80GB SXM data sheet (312 TFLOP/s bf16, 2,039 GB/s,
# NVLink 600 GB/s both ways). Reached FLOP/s: 271.2 of 312, the "maximum achievable matmul
# FLOPS" table of stas00/ml-engineering, compute/accelerator. Reached bandwidth: no table as
# good was found; 0.85 is what STREAM-like kernels are commonly reported to reach.
A100_80G = GPUSpec(312e12, 271.2 / 312, 2.039e12, 0.85, 80e9, 300e9)
# NVIDIA H100 SXM data sheet (989 TFLOP/s bf16 dense, 3.35 TB/s, NVLink 900 GB/s both ways);
# 794.5 of 989 TFLOP/s from the same table; bandwidth as above.
H100_80G = GPUSpec(989e12, 794.5 / 989, 3.35e12, 0.85, 80e9, 450e9)

# SmolLM2-135M-Instruct (bfloat16, eager) on two x86 cores: `fit` over 2,372 steps of a live
# vLLM 0.32.0 under 60 requests, recorded by sjf_bench.step_profile. Median error of a step 2.8%.
SMOLLM2_135M_CPU = LinearStepTime(2.73e-2, 1.26e-3, 1.61e-3, 3.58e-6, 6.77e-7)


@dataclass(frozen=True, slots=True)
class Preset:
    """A step-time model and the engine that goes with it."""

    step_time: RooflineStepTime | LinearStepTime
    shape: EngineShape


def _gpu_preset(model: ModelSpec, gpu: GPUSpec, gpus: int = 1) -> Preset:
    step_time = RooflineStepTime(model, gpu, gpus)
    shape = EngineShape(
        max_num_seqs=64,
        max_num_batched_tokens=8192,
        max_model_len=131072,
        num_gpu_blocks=step_time.kv_blocks(16),
        async_scheduling=True,
    )
    return Preset(step_time, shape)


PRESETS: Mapping[str, Preset] = {
    "llama3-8b-a100": _gpu_preset(LLAMA3_8B, A100_80G),
    "llama3-8b-h100": _gpu_preset(LLAMA3_8B, H100_80G),
    "llama3-70b-4xh100": _gpu_preset(LLAMA3_70B, H100_80G, 4),
    "smollm2-135m-cpu": Preset(
        SMOLLM2_135M_CPU,
        EngineShape(max_num_seqs=16, max_model_len=8192, num_gpu_blocks=1400, block_size=128),
    ),
}


def named(preset: str) -> Preset:
    """Return a preset. Raises WorkloadError that names those there are."""
    if preset not in PRESETS:
        raise WorkloadError(f"--preset {preset}: one of {', '.join(PRESETS)}")
    return PRESETS[preset]
