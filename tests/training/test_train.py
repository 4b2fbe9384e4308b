"""Training end to end, and that it sees the bytes that the engine will see."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sjf_predictor import artifact
from sjf_predictor.base import PromptFeatures
from sjf_predictor.chat_frame import turn_header
from sjf_predictor.features import extract
from sjf_training.data import DataError, Dataset, parse_row, read_dataset
from sjf_training.frame import learn_frame
from sjf_training.prepare import halves, row_features
from sjf_training.prompt_ids import load_tokenizer, prompt_token_ids
from sjf_training.train import train_linear

CONVERSATION = (
    ("system", "You answer briefly."),
    ("user", "Name three things about red house"),
    ("assistant", "Red, house, brick."),
    ("user", "Explain in a paragraph old river ünïcödé 日本語"),
)


def serving_ids(tokenizer, messages):
    """What the chat endpoint does: transformers' own template call."""
    return tokenizer.apply_chat_template(
        [{"role": role, "content": content} for role, content in messages],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
    )


@pytest.mark.parametrize("messages", [CONVERSATION, CONVERSATION[1:2], CONVERSATION[:2]])
def test_features_of_training_equal_serving_byte_for_byte(trained, tokenizer, messages):
    predictor, _ = trained
    fields = {"messages": [{"role": r, "content": c} for r, c in messages]}
    row = parse_row(fields | {"output_tokens": 3, "max_tokens": 64, "temperature": 0.7})
    training = extract(
        row_features(row, prompt_token_ids(tokenizer, [row.messages])[0]), predictor.frame
    )
    ids = serving_ids(tokenizer, messages)
    assert isinstance(ids, list)
    served = extract(PromptFeatures(ids, max_tokens=64, temperature=0.7), predictor.frame)
    for name in ("indices", "values", "dense"):
        ours, theirs = getattr(training, name), getattr(served, name)
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()


def test_prompt_without_template_is_plain_text(plain_tokenizer):
    (ids,) = prompt_token_ids(plain_tokenizer, [(("user", "Name three things"),)])
    assert ids.tolist() == plain_tokenizer.encode("Name three things")
    assert len(turn_header(plain_tokenizer)) == 0


def test_frame_is_the_template(trained, tokenizer):
    frame = trained[0].frame
    assert tokenizer.decode(frame.suffix).endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert tokenizer.decode(frame.turn_header).endswith("<|im_start|>user\n")


def test_shared_system_prompt_is_found_and_frequent_openings_are_not(tokenizer):
    system = "You are a helpful assistant who answers politely and never says too much."
    asks = [
        f"{verb} {i} {noun}s"
        for i in range(20)
        for verb in ("Write", "Name", "Sum")
        for noun in ("river", "song")
    ]
    conversations = [(("system", system), ("user", ask)) for ask in asks]
    conversations += [(("user", ask),) for ask in asks]
    ids = prompt_token_ids(tokenizer, conversations)
    frame = learn_frame(ids)  # no tokenizer: prefixes alone
    body = frame.locate(ids[0])
    assert body.prefix_hash != 0
    for prompt in ids:
        body = frame.locate(prompt)
        shown = tokenizer.decode(prompt[body.start : body.stop])
        assert "politely" not in shown
        assert shown.removeprefix("<|im_start|>user\n").startswith(("Write", "Name", "Sum"))
    assert frame.locate(ids[0]).prefix_hash != frame.locate(ids[-1]).prefix_hash


def test_learns_what_the_prompt_gives_away(trained):
    predictor, dataset = trained
    metrics = predictor.manifest.metrics
    assert metrics["test_n"] >= 20
    assert metrics["test_kendall_tau"] > 0.6
    assert abs(metrics["test_coverage_90"] - 0.9) < 0.12
    assert predictor.manifest.n_train == sum(row.split == "train" for row in dataset.rows)
    assert predictor.manifest.data_digest == dataset.digest


def test_predicted_tokens_are_about_right(trained, tokenizer):
    predictor, _ = trained
    for ask, tokens in {"Answer in one word: what is": 4, "Write a long story about": 480}.items():
        ids = serving_ids(tokenizer, (("user", f"{ask} green lamp?"),))
        score = float(predictor.score([PromptFeatures(ids, 1024)])[0])
        median = predictor.distribution(score).quantile_tokens(0.5, 1024)
        assert tokens / 2 <= median <= tokens * 2


def test_same_seed_same_bytes(trained, tokenizer, tmp_path):
    predictor, dataset = trained
    predictor.save(tmp_path / "a")
    train_linear(dataset, tokenizer, tmp_path / "b")
    for name in ("manifest.json", "weights.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_test_rows_change_nothing_but_their_metrics(trained, tokenizer):
    predictor, dataset = trained
    spoiled = [
        dataclasses.replace(r, lengths=(1,), output_tokens=1) if r.split == "test" else r
        for r in dataset.rows
    ]
    again = train_linear(Dataset(spoiled), tokenizer)
    assert np.array_equal(again.weights, predictor.weights)
    assert np.array_equal(again.calibration.table, predictor.calibration.table)
    assert again.manifest.metrics != predictor.manifest.metrics


def test_artifact_stays_small(trained, tmp_path):
    trained[0].save(tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2_000_000


def test_capped_answers_are_learned_as_longer(rows, tokenizer):
    cap = 100
    cut = [
        row
        | {"max_tokens": cap, "sampled_output_tokens": [min(t, cap) for t in lengths]}
        | {"output_tokens": min(row["output_tokens"], cap)}
        for row in rows
        for lengths in [row["sampled_output_tokens"]]
    ]
    predictor = train_linear(Dataset([parse_row(row) for row in cut]), tokenizer)
    ids = serving_ids(tokenizer, (("user", "Write a long story about cold engine?"),))
    score = float(predictor.score([PromptFeatures(ids, cap)])[0])
    assert predictor.distribution(score).expected_tokens(65536) > 1.5 * cap


def test_too_few_rows(tokenizer, trained):
    with pytest.raises(DataError, match="too few"):
        train_linear(Dataset(trained[1].rows[:30]), tokenizer)


def test_load_tokenizer_says_what_is_wrong(tmp_path, tokenizer_folder, tokenizer):
    with pytest.raises(DataError, match="no model folder"):
        load_tokenizer(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no usable tokenizer"):
        load_tokenizer(tmp_path)
    loaded = load_tokenizer(tokenizer_folder)
    assert artifact.fingerprint(loaded) == artifact.fingerprint(tokenizer)


def test_template_that_refuses_roles_is_named(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", "{{ raise_exception('no system') }}")
    with pytest.raises(DataError, match=r"roles system, user.*no system"):
        prompt_token_ids(tokenizer, [CONVERSATION[:2]])


def test_ranks_real_prompts(shared_data, tokenizer_for_words):
    everything = read_dataset(shared_data / "responses.jsonl.gz", sources=["alpaca"])
    dataset = Dataset(everything.rows[:5000])  # all of them take half a minute
    metrics = train_linear(dataset, tokenizer_for_words(dataset)).manifest.metrics
    assert metrics["test_kendall_tau"] >= 0.48
    assert metrics["test_coverage_50"] == pytest.approx(0.5, abs=0.06)
    assert metrics["test_coverage_90"] == pytest.approx(0.9, abs=0.04)


def test_validation_is_parted_by_prompt_or_pattern(rows):
    made = [parse_row({**row, "pattern": row["prompt"][:14]}) for row in rows]
    for keyed in (made, [parse_row(row) for row in rows] * 2):
        choosing, calibrating = halves(keyed)
        ours, theirs = ({r.pattern or r.prompt for r in half} for half in (choosing, calibrating))
        assert ours
        assert not ours & theirs
        assert len(ours | theirs) == len({r.pattern or r.prompt for r in keyed})
        assert abs(len(ours) - len(theirs)) <= 1
        assert halves(keyed[::-1])[0] == choosing[::-1]


def test_one_pattern_serves_both_halves(rows):
    made = [parse_row({**row, "pattern": "same"}) for row in rows[:7]]
    assert halves(made) == (made, made)


def test_calibration_is_not_fitted_to_what_chose_the_model(trained):
    metrics = trained[0].manifest.metrics
    held_out = sum(row.split == "validation" for row in trained[1].rows)
    assert metrics["validation_n"] + metrics["calibration_n"] == held_out
