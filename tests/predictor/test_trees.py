"""Our evaluation of LightGBM's text against LightGBM's own, and what is refused."""

import numpy as np
import pytest

from sjf_predictor.base import ArtifactError
from sjf_predictor.trees import parse


@pytest.fixture(scope="module")
def booster():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    features = rng.normal(size=(500, 6))
    target = features[:, 0] * features[:, 1] + (features[:, 2] > 0.3)
    data = lightgbm.Dataset(features, target, params={"verbosity": -1})
    settings = {"num_leaves": 9, "max_depth": 4, "use_missing": False, "verbosity": -1}
    return lightgbm.train(settings, data, num_boost_round=30)


def test_equals_lightgbm(booster):
    trees = parse(booster.model_to_string(), features=6)
    assert len(trees.roots) == 30
    assert trees.depth <= 4
    rows = np.random.default_rng(1).normal(size=(200, 6))
    ours = [trees.predict(row) for row in rows]
    np.testing.assert_allclose(ours, booster.predict(rows), rtol=1e-12, atol=1e-12)


def test_value_on_a_threshold_goes_left(booster):
    trees = parse(booster.model_to_string(), features=6)
    splits = np.isfinite(trees.threshold)
    row = np.zeros(6)
    for feature, threshold in zip(trees.feature[splits], trees.threshold[splits], strict=True):
        row[feature] = threshold
    assert trees.predict(row) == pytest.approx(booster.predict(row[None])[0], rel=1e-12)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("decision_type=2", "decision_type=1", "categorical"),
        ("left_child=1", "left_child=77", "child that does not exist"),
        ("left_child=1", "left_child=0", "cycle"),
        ("threshold=", "thresholds=", "differ in length"),
        ("leaf_value=", "leaves=", "leaf_value"),
        ("leaf_value=", "leaf_value=nan ", "differ in length"),
        ("Tree=", "Bush=", "no trees"),
    ],
)
def test_damaged_text_is_refused(before, after, message):
    text = (
        "tree\n\nTree=0\nsplit_feature=0 1\nthreshold=0.5 1.5\ndecision_type=2 2\n"
        "left_child=1 -1\nright_child=-3 -2\nleaf_value=1 2 3\n\nend of trees\n"
    )
    assert parse(text, 2).predict(np.array([0.0, 2.0])) == 2.0
    with pytest.raises(ArtifactError, match=message):
        parse(text.replace(before, after), 2)


def test_more_features_than_columns_are_refused(booster):
    with pytest.raises(ArtifactError, match="more than the 2 features"):
        parse(booster.model_to_string(), features=2)
