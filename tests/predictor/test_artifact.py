"""A folder that cannot be used is refused, with the folder and the fix in the message."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from sjf_predictor import artifact
from sjf_predictor.base import ArtifactError


@pytest.fixture
def folder(linear, tmp_path):
    linear.save(tmp_path / "art")
    return tmp_path / "art"


def refusal(folder):
    with pytest.raises(ArtifactError) as caught:
        artifact.load(folder)
    message = str(caught.value)
    assert str(folder) in message
    assert "vllm-sjf train" in message or "upgrade" in message
    return message


def edit(folder, **changes):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_tensors(folder, **changes):
    path = folder / "weights.safetensors"
    save_file(load_file(path) | changes, path)


def test_missing_folder(tmp_path):
    assert "no predictor folder" in refusal(tmp_path / "nowhere")


def test_missing_manifest(folder):
    (folder / "manifest.json").unlink()
    assert "has no manifest.json" in refusal(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b'"text"', b"[]", b"{}"])
def test_garbled_manifest(folder, content):
    (folder / "manifest.json").write_bytes(content)
    refusal(folder)


def test_manifest_with_wrong_or_unknown_fields(folder):
    edit(folder, n_train="many")
    assert "n_train" in refusal(folder)
    edit(folder, n_train=1, surprise=1)
    assert "surprise" in refusal(folder)


def test_unknown_kind(folder):
    edit(folder, kind="telepathy")
    assert "telepathy" in refusal(folder)


def test_other_feature_version(folder):
    edit(folder, feature_version=99)
    assert "feature version 99" in refusal(folder)


def test_missing_and_damaged_weights(folder):
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    refusal(folder)
    path.unlink()
    refusal(folder)


def test_wrong_shape_nan_and_missing_tensor(folder):
    good = load_file(folder / "weights.safetensors")
    edit_tensors(folder, weights=np.zeros(17, np.float16))
    assert "shape (17,)" in refusal(folder)
    edit_tensors(folder, weights=np.full(good["weights"].shape, np.nan, np.float16))
    assert "NaN" in refusal(folder)
    del good["intercept"]
    save_file(good, folder / "weights.safetensors")
    assert "intercept" in refusal(folder)


def test_tables_of_different_sizes(folder):
    edit_tensors(folder, calibration_knots=np.arange(3.0))
    assert "calibration" in refusal(folder)
    edit_tensors(folder, calibration_knots=np.zeros(0), calibration_table=np.zeros((0, 113)))
    refusal(folder)


class Tokenizer:
    def __init__(self, vocab, template=None, added=None):
        self.vocab, self.chat_template, self.added = vocab, template, added or {}

    def get_vocab(self):
        return self.vocab

    def get_added_vocab(self):
        return self.added


def test_fingerprint_sees_vocabulary_added_tokens_and_template():
    base = artifact.fingerprint(Tokenizer({"a": 0, "b": 1}, "t"))
    assert base == artifact.fingerprint(Tokenizer({"b": 1, "a": 0}, "t"))
    others = [
        Tokenizer({"a": 1, "b": 0}, "t"),
        Tokenizer({"a": 0, "b": 1}, "u"),
        Tokenizer({"a": 0, "b": 1}, None),
        Tokenizer({"a": 0, "b": 1}, "t", {"b": 1}),
    ]
    assert base not in {artifact.fingerprint(other) for other in others}


def test_other_tokenizer_is_refused(linear, predictors):
    artifact.check_tokenizer(linear.manifest, "f" * 64)
    with pytest.raises(ArtifactError, match=r"made for the tokenizer of tiny.*--model DIR"):
        artifact.check_tokenizer(linear.manifest, "0" * 64)


def test_kinds_that_look_at_no_ids_go_with_any_tokenizer(predictors, tmp_path):
    predictors["constant"].save(tmp_path)
    artifact.check_tokenizer(artifact.load(tmp_path)[0], "0" * 64)
