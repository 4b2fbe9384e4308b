"""How well a predictor ranks and sizes answers, beside controls and what is possible."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sjf_predictor.base import LengthPredictor
from sjf_predictor.controls import ConstantPredictor, PromptLengthPredictor
from sjf_training.data import Row
from sjf_training.prepare import row_features
from sjf_training.prompt_ids import ChatTokenizer, row_token_ids
from sjf_training.ranking import kendall_interval, kendall_tau, pair_accuracy
from sjf_training.timing import prompts_of, us_per_prompt

if TYPE_CHECKING:
    from rich.table import Table

Floats = npt.NDArray[np.float64]

ALL = "all"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Figures of one group of rows; also the fields of the JSON report.

    kendall_tau: tau-b of score and output_tokens, with its 95% bootstrap interval.
    pair_accuracy: share of pairs more than 20% apart that are put in the right order.
    coverage_50, coverage_90: share of answers within that quantile of their distribution.
    mae_tokens: mean absolute error of the median.
    us_per_prompt: see ``timing``.
    *_tau: the same tau of the controls, and of the mean of each prompt's other sampled answers
        (what a perfect predictor could reach); None where no prompt has any.
    """

    source: str
    domain: str
    model: str
    n: int
    kendall_tau: float
    kendall_tau_low: float
    kendall_tau_high: float
    pair_accuracy: float
    coverage_50: float
    coverage_90: float
    mae_tokens: float
    us_per_prompt: float
    constant_tau: float
    prompt_length_tau: float
    ceiling_tau: float | None


@dataclass(frozen=True, eq=False)
class Scored:
    """Rows with what a predictor says of them; every array of shape [n].

    medians, limits_90: quantiles of the distribution, in tokens, under the row's cap.
    cumulative: the probability that the distribution gives to answers as short as the true one.
    constant, prompt_length: the controls' scores. us_per_prompt: see Evaluation.
    """

    rows: Sequence[Row]
    scores: Floats
    medians: Floats
    limits_90: Floats
    cumulative: Floats
    constant: Floats
    prompt_length: Floats
    us_per_prompt: float


def evaluate_rows(
    predictor: LengthPredictor,
    rows: Sequence[Row],
    tokenizer: ChatTokenizer,
    *,
    seed: int = 0,
    step: Callable[[str], None] = lambda _: None,
) -> list[Evaluation]:
    """Score rows and report on them. step: told what begins, for a progress display."""
    return report(score_rows(predictor, rows, tokenizer, step), seed=seed)


def score_rows(
    predictor: LengthPredictor,
    rows: Sequence[Row],
    tokenizer: ChatTokenizer,
    step: Callable[[str], None] = lambda _: None,
    timed_tokens: int = 0,
) -> Scored:
    """Let a predictor and the controls score rows, as the engine would see their prompts.

    timed_tokens: take the time on prompts of so many tokens; 0 takes it on the rows' own.
    """
    step(f"tokenizing {len(rows):,} prompts")
    ids = row_token_ids(tokenizer, rows)
    prompts = [row_features(row, tokens) for row, tokens in zip(rows, ids, strict=True)]
    step(f"scoring {len(rows):,} prompts")
    scores = predictor.score(prompts)
    lengths = [predictor.distribution(float(score)) for score in scores]
    caps = [p.max_tokens or np.inf for p in prompts]
    medians, limits_90 = (
        np.array([d.quantile_tokens(q, cap) for d, cap in zip(lengths, caps, strict=True)])
        for q in (0.5, 0.9)
    )
    cumulative = [
        d.probabilities[d.values <= row.output_tokens].sum()
        for d, row in zip(lengths, rows, strict=True)
    ]
    constant, prompt_length = (
        control.score(prompts).astype(np.float64)
        for control in (ConstantPredictor(), PromptLengthPredictor())
    )
    timed = prompts_of(timed_tokens, rows, tokenizer) if timed_tokens else prompts
    return Scored(
        rows,
        scores.astype(np.float64),
        medians,
        limits_90,
        np.array(cumulative),
        constant,
        prompt_length,
        us_per_prompt(predictor, timed),
    )


def join(parts: Sequence[Scored]) -> Scored:
    """Return several scorings as one; the time is the median of theirs."""
    names = ("scores", "medians", "limits_90", "cumulative", "constant", "prompt_length")
    return Scored(
        rows=[row for part in parts for row in part.rows],
        us_per_prompt=float(np.median([part.us_per_prompt for part in parts])),
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names},
    )


def report(scored: Scored, *, seed: int = 0) -> list[Evaluation]:
    """Evaluate per (source, domain, model), and over all rows first when there are several."""
    rows = scored.rows
    groups: dict[tuple[str, str, str], list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault((row.source, row.domain, row.model), []).append(place)
    names = sorted(groups)
    if len(names) > 1:
        models = {row.model for row in rows}
        total = (ALL, ALL, models.pop() if len(models) == 1 else ALL)
        groups[total] = list(range(len(rows)))
        names.insert(0, total)
    return [_evaluate_group(name, groups[name], scored, seed) for name in names]


def _evaluate_group(
    name: tuple[str, str, str],
    places: Sequence[int],
    scored: Scored,
    seed: int,
) -> Evaluation:
    at, rows = np.asarray(places), scored.rows
    true = np.array([rows[i].output_tokens for i in places], dtype=np.float64)
    scores = scored.scores[at]
    low, high = kendall_interval(scores, true, seed)
    source, domain, model = name
    return Evaluation(
        source=source,
        domain=domain,
        model=model,
        n=len(places),
        kendall_tau=kendall_tau(scores, true),
        kendall_tau_low=low,
        kendall_tau_high=high,
        pair_accuracy=pair_accuracy(scores, true, seed),
        coverage_50=float(np.mean(true <= scored.medians[at])),
        coverage_90=float(np.mean(true <= scored.limits_90[at])),
        mae_tokens=float(np.mean(np.abs(true - scored.medians[at]))),
        us_per_prompt=scored.us_per_prompt,
        constant_tau=kendall_tau(scored.constant[at], true),
        prompt_length_tau=kendall_tau(scored.prompt_length[at], true),
        ceiling_tau=_ceiling([rows[i] for i in places]),
    )


def _ceiling(rows: Sequence[Row]) -> float | None:
    """Tau of output_tokens and the mean of the prompt's other answers."""
    pairs = []
    for row in rows:
        others = list(row.lengths)
        if row.output_tokens in others:
            others.remove(row.output_tokens)
        if len(row.lengths) > 1 and others:
            pairs.append((float(np.mean(others)), float(row.output_tokens)))
    if len(pairs) < 2:
        return None
    others_mean, own = np.array(pairs).T
    return kendall_tau(others_mean, own)


def table(evaluations: Sequence[Evaluation], title: str) -> "Table":
    """Return the report as a rich table."""
    from rich import box
    from rich.table import Table

    shown = Table(
        title=title,
        box=box.SIMPLE_HEAD,
        caption="tau: Kendall's tau-b of score and answer length, with its 95% bootstrap interval; "
        "ceiling: of the mean of a prompt's other answers. Coverage: answers within a quantile.",
    )
    shown.add_column("source\ndomain\nmodel", overflow="fold")
    shown.add_column("n\n\nµs", justify="right", no_wrap=True)
    shown.add_column("tau\nfrom\nto", justify="right", no_wrap=True)
    shown.add_column("tau of ceiling\nprompt length\nconstant", justify="right", no_wrap=True)
    shown.add_column("pairs\nright", justify="right", no_wrap=True)
    shown.add_column("coverage\n50%\n90%", justify="right", no_wrap=True)
    shown.add_column("error\ntokens", justify="right", no_wrap=True)
    for e in evaluations:
        shown.add_row(
            "\n".join(part or "-" for part in (e.source, e.domain, e.model)),
            f"{e.n:,}\n\n{e.us_per_prompt:.0f}",
            f"[bold]{e.kendall_tau:.3f}[/]\n{e.kendall_tau_low:.3f}\n{e.kendall_tau_high:.3f}",
            f"{'-' if e.ceiling_tau is None else format(e.ceiling_tau, '.3f')}\n"
            f"{e.prompt_length_tau:.3f}\n{e.constant_tau:.3f}",
            f"{e.pair_accuracy:.1%}",
            f"\n{e.coverage_50:.1%}\n{e.coverage_90:.1%}",
            f"{e.mae_tokens:.0f}",
            end_section=True,
        )
    return shown
