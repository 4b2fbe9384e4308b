"""What every kind of predictor must do."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sjf_predictor import artifact
from sjf_predictor.base import ArtifactError, PromptFeatures

KINDS = sorted(artifact.KINDS)
ODD_PROMPTS = {
    "empty": [],
    "empty array": np.zeros(0, np.int64),
    "one token": [5],
    "32k tokens": list(range(32_768)),
    "32k equal tokens": [2] * 32_768,
    "huge ids": [2**63, 2**64 - 1, 2**70, 10**30],
    "negative ids": [-1, -5, -(2**63), -(2**70)],
    "int32 array": np.arange(300, dtype=np.int32),
    "tuple": tuple(range(600)),
}


@pytest.fixture(params=KINDS)
def predictor(request, predictors):
    return predictors[request.param]


def features_of(prompts):
    return [PromptFeatures(ids, max_tokens=100 + i) for i, ids in enumerate(prompts)]


def test_kind_is_its_name(predictors):
    assert sorted(predictors) == KINDS
    assert all(name == predictor.kind for name, predictor in predictors.items())


def test_says_whether_it_is_slow(predictor):
    assert predictor.slow is (predictor.kind == "encoder")


def test_batch_equals_single_in_any_order(predictor, prompts):
    batch = features_of(prompts)
    together = predictor.score(batch)
    assert together.dtype == np.float32
    assert together.shape == (len(batch),)
    alone = np.concatenate([predictor.score([one]) for one in batch])
    assert together.tobytes() == alone.tobytes()
    assert predictor.score(batch[::-1]).tobytes() == together[::-1].tobytes()
    assert predictor.score([]).shape == (0,)


def test_score_tells_prompts_apart(predictor, prompts):
    assert len(set(predictor.score(features_of(prompts)).tolist())) > 1 or (
        predictor.kind == "constant"
    )


@pytest.mark.parametrize("name", ODD_PROMPTS)
def test_odd_prompts_score_finite_and_have_a_distribution(predictor, name):
    score = predictor.score([PromptFeatures(ODD_PROMPTS[name])])
    assert np.isfinite(score).all()
    length = predictor.distribution(float(score[0]))
    assert np.isfinite(length.expected_tokens(1024))
    assert length.expected_tokens(1024) >= 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30])
def test_odd_temperature_and_caps_score_finite(predictor, value):
    odd = PromptFeatures([1, 2, 3], max_tokens=2**40, temperature=value, n=0)
    assert np.isfinite(predictor.score([odd])).all()


@pytest.mark.parametrize("score", [-1e30, -5.0, 0.0, 3.3, 4.75, 9.0, 1e30])
def test_distribution_is_one(predictor, score):
    length = predictor.distribution(score)
    assert length.probabilities.min() >= 0
    assert length.probabilities.sum() == pytest.approx(1.0)
    assert (np.diff(length.values) > 0).all()
    assert length.values.shape == length.probabilities.shape


def test_bigger_score_means_longer(predictor):
    expected = [predictor.distribution(s).expected_tokens(4096) for s in np.linspace(0, 9, 200)]
    assert (np.diff(expected) >= -1e-9).all()
    assert expected[-1] > expected[0]


def test_threads_agree(predictor, prompts):
    batch = features_of(prompts)
    want = predictor.score(batch).tobytes()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: predictor.score(batch).tobytes(), range(24)))
    assert set(found) == {want}


def test_saved_and_loaded_is_bit_equal(predictor, prompts, tmp_path):
    predictor.save(tmp_path / "a" / "b")
    manifest, loaded = artifact.load(tmp_path / "a" / "b")
    assert manifest.kind == loaded.kind == predictor.kind
    batch = features_of([*prompts, *ODD_PROMPTS.values()])
    assert loaded.score(batch).tobytes() == predictor.score(batch).tobytes()
    for score in (3.3, 4.751, 6.0):
        ours, theirs = predictor.distribution(score), loaded.distribution(score)
        assert ours.probabilities.tobytes() == theirs.probabilities.tobytes()
    loaded.save(tmp_path / "again")
    files = sorted(path.name for path in (tmp_path / "a" / "b").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "again").iterdir())
    for name in files:
        first = (tmp_path / "a" / "b" / name).read_bytes()
        assert first == (tmp_path / "again" / name).read_bytes()


def test_unknown_manifest_version_is_refused(predictor, tmp_path):
    predictor.save(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(path.read_text().replace('"format_version": 1', '"format_version": 99'))
    with pytest.raises(ArtifactError, match="format version 99"):
        artifact.load(tmp_path)


def test_an_artifact_that_is_emptied_or_removed_serves_on(predictor, tmp_path):
    batch = features_of(ODD_PROMPTS.values())
    predictor.save(tmp_path / "art")
    _, loaded = artifact.load(tmp_path / "art")

    for file in [each for each in (tmp_path / "art").rglob("*") if each.is_file()]:
        with file.open("r+b") as opened:
            opened.truncate(0)  # in place: whoever maps the file would end with SIGBUS
        file.unlink()

    assert np.array_equal(loaded.score(batch), predictor.score(batch))
