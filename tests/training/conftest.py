"""A tiny tokenizer with a chat template, and answers whose length the prompt gives away."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

# Before torch starts: its threads wait for each other by spinning, which on a busy machine
# makes a second of work last minutes.
os.environ.setdefault("OMP_NUM_THREADS", "1")

TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' "
    "+ message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
ASKS = {
    "Answer in one word: what is": 4,
    "Name three things about": 25,
    "Explain in a paragraph": 110,
    "Write a long story about": 480,
}
ADJECTIVES = "red blue old new tall small quiet loud cold warm"
NOUNS = "house river teacher engine garden letter planet market song winter"
TOPICS = [f"{adjective} {noun}" for adjective in ADJECTIVES.split() for noun in NOUNS.split()]


def make_tokenizer(template=TEMPLATE, texts=None, vocab_size=600):
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    raw = tokenizers.Tokenizer(tokenizers.models.BPE())
    raw.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = texts or [f"{ask} {topic}" for ask in ASKS for topic in TOPICS]
    raw.train_from_iterator(texts, trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<|im_start|>")
    fast.chat_template = template
    return fast


def make_rows(count=400, seed=0, cap=1024):
    """Rows as dicts; every prompt is distinct."""
    rng = np.random.default_rng(seed)
    pairs = [(ask, topic) for ask in ASKS for topic in TOPICS]
    rows = []
    for place in rng.permutation(len(pairs))[:count]:
        ask, topic = pairs[place]
        samples = np.maximum(np.round(ASKS[ask] * np.exp(0.3 * rng.standard_normal(3))), 1)
        samples = np.minimum(samples, cap).astype(int).tolist()
        rows.append(
            {
                "source": "made",
                "domain": "chat",
                "model": "tiny",
                "prompt": f"{ask} {topic}?",
                "output_tokens": samples[-1],
                "sampled_output_tokens": samples,
                "max_tokens": cap,
            }
        )
    return rows


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session")
def plain_tokenizer():
    return make_tokenizer(template=None)


@pytest.fixture(scope="session")
def tokenizer_folder(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def rows():
    return make_rows()


@pytest.fixture(scope="session")
def data_file(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def trained(data_file, tokenizer):
    """(predictor, dataset) trained end to end on the made rows."""
    pytest.importorskip("sklearn")
    from sjf_training.data import read_dataset
    from sjf_training.train import train_linear

    dataset = read_dataset(data_file)
    return train_linear(dataset, tokenizer), dataset


@pytest.fixture(scope="session")
def shared_data():
    """The evaluation data, where there is some; it is not part of the repository."""
    root = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("SJF_SHARED_DATA", root.parent / "shared" / "data"))
    if not (folder / "responses.jsonl.gz").is_file():
        pytest.skip(f"no evaluation data at {folder}; SJF_SHARED_DATA names another folder")
    return folder


@pytest.fixture(scope="session")
def tokenizer_for_words():
    """Make a byte-level BPE from a data set's training prompts."""

    def make(dataset):
        texts = [row.prompt for row in dataset.rows if row.split == "train"]
        return make_tokenizer(texts=texts, vocab_size=16_000)

    return make
