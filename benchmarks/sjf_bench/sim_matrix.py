"""A matrix of simulations: policies x workloads x loads x seeds, read from TOML."""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sjf_bench.sim_policies import PolicySpec
from sjf_bench.sim_types import EngineShape, StepTime
from sjf_bench.sim_workload import WorkloadSpec
from sjf_bench.step_time import PRESETS
from sjf_bench.workload import WorkloadError


@dataclass(frozen=True, slots=True)
class Cell:
    """One simulation of a matrix; ``digest`` names everything that decides its figures."""

    policy: PolicySpec
    workload: WorkloadSpec
    rho: float
    seed: int
    digest: str


class Matrix(BaseModel):
    """What to simulate.

    preset: model and machine; engine: fields of EngineShape that differ from the preset's.
    baseline: the policy that the others are compared with; oracle: the one whose gain is 100%.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: str = "llama3-8b-h100"
    engine: Mapping[str, Any] = {}
    baseline: str = "fcfs"
    oracle: str = "oracle-sjf"
    loads: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)]
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    workloads: Annotated[tuple[WorkloadSpec, ...], Field(min_length=1)]
    policies: Annotated[tuple[PolicySpec, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_sound(self) -> "Matrix":
        if self.preset not in PRESETS:
            raise ValueError(f"preset {self.preset!r}: one of {', '.join(PRESETS)}")
        known = {each.name for each in fields(EngineShape)}
        unknown = sorted(set(self.engine) - known)
        if unknown:
            raise ValueError(f"engine.{unknown[0]}: one of {', '.join(sorted(known))}")
        for kind, names in (
            ("workloads", [each.name for each in self.workloads]),
            ("policies", [each.name for each in self.policies]),
        ):
            if len(set(names)) < len(names):
                raise ValueError(f"two {kind} have the same name; give each its own")
        if self.baseline not in {each.name for each in self.policies}:
            raise ValueError(f"baseline {self.baseline!r} is none of the policies")
        return self

    @property
    def shape(self) -> EngineShape:
        """The engine that is simulated."""
        return replace(PRESETS[self.preset].shape, **self.engine)

    @property
    def step_time(self) -> StepTime:
        """The model of how long a step takes."""
        return PRESETS[self.preset].step_time

    def engine_digest(self, workload: WorkloadSpec) -> str:
        """Name what decides the capacity that loads are fractions of."""
        return _digest(self.shape, self.step_time, workload)

    def cells(self) -> Iterator[Cell]:
        """Iterate over all cells, in the order in which results are written."""
        for workload in self.workloads:
            engine = self.engine_digest(workload)
            for rho in self.loads:
                for seed in self.seeds:
                    for policy in self.policies:
                        digest = _digest(engine, policy, rho, seed)
                        yield Cell(policy, workload, rho, seed, digest)


def read_matrix(path: Path) -> Matrix:
    """Read a matrix file. Raises WorkloadError with one line that names the key and the fault."""
    try:
        return Matrix.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'matrix'}: {each['msg']}"
            for each in error.errors(include_url=False)
        )
        raise WorkloadError(f"{path}: {faults}") from error
    except (ValueError, RecursionError) as error:  # its syntax, its encoding or its depth
        raise WorkloadError(f"{path} is not TOML: {error}") from error


def _digest(*parts: Any) -> str:  # noqa: ANN401 - anything with a repr of its own
    plain = [
        part.model_dump(mode="json") if isinstance(part, BaseModel) else repr(part)
        for part in parts
    ]
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]
