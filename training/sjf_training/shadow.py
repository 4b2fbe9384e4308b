"""Would another predictor have ordered the served requests better than the one that served?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sjf_predictor.base import LengthPredictor
from sjf_training.data import BadRowError, DataError, Row, parse_row
from sjf_training.prepare import row_features
from sjf_training.ranking import bootstrap_interval, kendall_tau
from sjf_training.raw import raw_rows

RESAMPLES = 400
MIN_ROWS = 50

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Kendall's tau with the lengths of what was served, and the difference's 95% interval."""

    n: int
    served_tau: float
    new_tau: float
    gain: float
    gain_low: float
    gain_high: float

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.gain_low > 0:
            return "the new predictor orders these requests better than what served them"
        if self.gain_high < 0:
            return "the new predictor orders these requests worse than what served them"
        return "no difference that these requests can show"


def read_served(log: Path, split: str) -> tuple[list[Row], Floats]:
    """Read a request log's complete answers on one side of the split (``all`` for every one).

    Second, the score that each request was served with. Raises DataError.
    """
    rows: list[Row] = []
    scores: list[float] = []
    faults: dict[str, int] = {}
    for _, raw in raw_rows(log):
        score = raw.get("score") if isinstance(raw, dict) else None
        if not isinstance(score, int | float):
            faults["no score"] = faults.get("no score", 0) + 1
            continue
        try:
            row = parse_row(raw)
        except BadRowError as error:
            faults[str(error)] = faults.get(str(error), 0) + 1
            continue
        if not row.cut and split in ("all", row.split):
            rows.append(row)
            scores.append(float(score))
    if len(rows) < MIN_ROWS:
        why = "; ".join(f"{count} x {kind}" for kind, count in faults.items())
        raise DataError(
            f"{log}: {len(rows)} complete answers with a served score in the {split} split, at "
            f"least {MIN_ROWS} are needed" + (f"; left out: {why}" if why else "")
        )
    return rows, np.array(scores)


def compare(
    predictor: LengthPredictor,
    rows: Sequence[Row],
    served: Floats,
    seed: int = 0,
    step: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Score ``rows`` anew and compare both orders; paired bootstrap over requests."""
    step(f"scoring {len(rows):,} prompts")
    prompts = [row_features(row, row.token_ids or ()) for row in rows]
    scores = np.asarray(predictor.score(prompts), dtype=np.float64)
    true = np.array([row.output_tokens for row in rows], dtype=np.float64)
    step("comparing")
    low, high = bootstrap_interval(
        lambda drawn: (
            kendall_tau(scores[drawn], true[drawn]) - kendall_tau(served[drawn], true[drawn])
        ),
        len(rows),
        seed,
        RESAMPLES,
    )
    served_tau, new_tau = kendall_tau(served, true), kendall_tau(scores, true)
    return Comparison(len(rows), served_tau, new_tau, new_tau - served_tau, low, high)
