"""How an encoder is trained: everything that two recipes differ in, and nothing else."""

from dataclasses import dataclass, replace
from typing import Literal

from sjf_training.data import DataError


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of one encoder training.

    objective: ``margin_pairs`` is MarginRankingLoss (margin 1) over sampled pairs of prompts
        whose lengths differ clearly; ``all_pairs`` is logistic loss over all pairs in a batch,
        towards the share of their answers in which the first is longer, plus
        ``regression_weight`` times squared error on the standardised label.
    samples: learn from all answers of a prompt, not from its one ``output_tokens``.
    batch: pairs (margin_pairs) or prompts (all_pairs) a step.
    layer_decay: learning rate of a layer, as a share of the next higher layer's.
    head_rate: learning rate of the head, in multiples of the top layer's.
    averaging: keep this share of the weights' running mean a step, and use that mean; 0 uses
        the weights themselves (Polyak and Juditsky, 1992).
    warmup_share: of all steps; then the rate falls linearly to zero.
    linear: let validation choose a share of the linear predictor's score beside the encoder's.
    window_tokens, both_ends: see ``EncoderText``.
    min_steps, max_epochs: see ``for_rows``.
    """

    name: str
    objective: Literal["margin_pairs", "all_pairs"]
    epochs: int
    batch: int
    learning_rate: float
    layer_decay: float = 1.0
    head_rate: float = 1.0
    weight_decay: float = 0.01
    averaging: float = 0.0
    warmup_share: float = 0.1
    clip_norm: float = 1.0
    samples: bool = True
    regression_weight: float = 0.0
    window_tokens: int = 128
    both_ends: bool = True
    linear: bool = True
    evaluations_an_epoch: int = 2
    min_steps: int = 0
    max_epochs: int = 12

    def for_rows(self, count: int) -> "Recipe":
        """Return the recipe for ``count`` training prompts: on few of them, more epochs."""
        steps_an_epoch = max(-(-count // self.batch), 1)
        wanted = min(-(-self.min_steps // steps_an_epoch), self.max_epochs)
        return replace(self, epochs=max(self.epochs, wanted))


PARS = Recipe(
    name="pars",
    objective="margin_pairs",
    epochs=3,
    batch=64,
    learning_rate=2e-5,
    samples=False,
    both_ends=False,
    linear=False,
    evaluations_an_epoch=1,
)
"""As published in PARS (arXiv 2510.03243)."""

DEFAULT = Recipe(
    name="default",
    objective="all_pairs",
    epochs=5,
    batch=64,
    learning_rate=2e-4,
    layer_decay=0.85,
    head_rate=5.0,
    regression_weight=0.5,
    averaging=0.99,
    window_tokens=256,
    min_steps=200,
)

RECIPES = {recipe.name: recipe for recipe in (DEFAULT, PARS)}


def recipe_named(name: str, epochs: int | None = None) -> Recipe:
    """Return a recipe, with another number of epochs if given. Raises DataError."""
    if name not in RECIPES:
        raise DataError(f"no recipe {name!r}: --recipe takes {' or '.join(sorted(RECIPES))}")
    recipe = RECIPES[name]
    return recipe if epochs is None else replace(recipe, epochs=epochs, min_steps=0)
