"""What the encoder reads, and which artifacts it refuses."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from sjf_predictor import artifact
from sjf_predictor.base import ArtifactError, PromptFeatures

HEADER, SUFFIX, SYSTEM = (
    [2, 198, 1, 4093, 198],
    [2, 198, 1, 520, 9531, 198],
    [1, 77, 78, 79, 80, 81, 82, 83, 84],
)


def test_template_and_shared_prefix_are_stripped(encoder_text):
    text = encoder_text()
    own = [11, 22, 33]
    bare = text.ids(PromptFeatures(own))
    assert text.text(PromptFeatures(own)) == "w11 w22 w33"
    assert text.ids(PromptFeatures(SYSTEM + own + SUFFIX)) == bare
    assert text.ids(PromptFeatures([*SYSTEM, 5, 6, *HEADER, *own, *SUFFIX])) == bare


def test_saved_padding_and_truncation_do_not_count(encoder_text):
    text = encoder_text()
    short, longer = (text.ids(PromptFeatures([9] * count)) for count in (1, 12))
    assert len(short) == 4  # [CLS] w ##9 [SEP]
    assert len(longer) == 26


def test_both_ends_of_a_long_prompt_are_read(encoder_text):
    prompt = PromptFeatures(list(range(100, 400)))
    both = encoder_text(32, both_ends=True).ids(prompt)
    head = encoder_text(32, both_ends=False).ids(prompt)
    whole = encoder_text(2000, both_ends=True).ids(prompt)
    assert len(both) == len(head) == 32
    assert head == [*whole[:31], whole[-1]]
    assert both == whole[:16] + whole[-16:]


def test_middle_of_a_very_long_prompt_is_not_read(encoder):
    ids = list(range(1, 20_001))
    other = [*ids[:5000], *[7] * 10_000, *ids[15_000:]]
    text = encoder.text
    assert text.ids(PromptFeatures(ids)) == text.ids(PromptFeatures(other))


def test_foreign_ids_are_left_out(encoder_text):
    text = encoder_text()
    ids = PromptFeatures([11, 60_000, -4, 2**63, 22])
    assert text.text(ids) == "w11 w22"


def test_scoring_leaves_torch_threads_alone(encoder):
    import torch

    before = torch.get_num_threads()
    encoder.score([PromptFeatures([1, 2, 3])])
    assert torch.get_num_threads() == before


def test_window_without_room_is_refused(encoder_text):
    with pytest.raises(ArtifactError, match="window of 2 tokens"):
        encoder_text(2)


def change_json(path, **fields):
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def damage_tensor(folder, name, value):
    from safetensors.numpy import load_file, save_file

    path = folder / "weights.safetensors"
    tensors = load_file(path)
    tensors[name] = value
    save_file(tensors, path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: change_json(f / "config.json", hidden_size=24), "has shape"),
        (lambda f: change_json(f / "config.json", model_type="nonesuch"), "no usable encoder"),
        (lambda f: (f / "config.json").unlink(), "no usable encoder"),
        (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json cannot be read"),
        (lambda f: (f / "backbone_tokenizer.json").write_text("{}"), "backbone's tokenizer"),
        (
            lambda f: damage_tensor(f, "network.head.weight", np.full((1, 16), np.nan, np.float32)),
            "NaN",
        ),
        (lambda f: damage_tensor(f, "network.head.bias", np.zeros(2, np.float32)), "has shape"),
        (lambda f: change_json(f / "manifest.json", kind="student"), "lacks 'student_"),
    ],
)
def test_damaged_artifact_is_refused(encoder, tmp_path, damage, message):
    encoder.save(tmp_path)
    damage(tmp_path)
    with pytest.raises(ArtifactError, match=message):
        artifact.load(tmp_path)


def test_code_in_an_artifact_is_never_run(encoder, tmp_path):
    encoder.save(tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')\n")
    change_json(
        tmp_path / "config.json",
        model_type="evil",
        auto_map={"AutoConfig": "evil.Config", "AutoModel": "evil.Model"},
    )
    with pytest.raises(ArtifactError):
        artifact.load(tmp_path)
