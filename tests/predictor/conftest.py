"""One small predictor of every kind, made without training."""

import numpy as np
import pytest

from sjf_predictor import controls
from sjf_predictor.calibration import Observations, fit
from sjf_predictor.encoder import EncoderPredictor
from sjf_predictor.encoder_text import EncoderText
from sjf_predictor.features import BUCKETS, DENSE_NAMES, FEATURE_VERSION
from sjf_predictor.frame import PromptFrame, SharedPrefixes, prefix_hashes
from sjf_predictor.lambdarank import LambdaRankPredictor, tree_width
from sjf_predictor.linear import KIND, DenseTerm, LinearPredictor
from sjf_predictor.manifest import Manifest
from sjf_predictor.student import StudentNetwork, StudentPredictor
from sjf_predictor.trees import parse

HEADER = [2, 198, 1, 4093, 198]
SUFFIX = [2, 198, 1, 520, 9531, 198]
SYSTEM = [1, 77, 78, 79, 80, 81, 82, 83, 84]


def make_observations(count=3000, seed=0, cap=None):
    """Log-normal lengths whose median grows with the score."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(3.0, 6.0, count)
    tokens = np.maximum(np.round(np.exp(scores + 0.5 * rng.standard_normal(count))), 1.0)
    censored = np.zeros(count, dtype=bool) if cap is None else tokens >= cap
    return Observations(
        scores, tokens if cap is None else np.minimum(tokens, cap), censored, np.ones(count)
    )


def make_frame():
    system = np.array(SYSTEM, dtype=np.int64)
    prefixes = SharedPrefixes(prefix_hashes(system)[-1:], np.array([len(system)]))
    return PromptFrame(prefixes, np.array(HEADER), np.array(SUFFIX))


def make_manifest(kind):
    return Manifest(
        kind=kind,
        feature_version=FEATURE_VERSION,
        model="tiny",
        tokenizer_fingerprint="f" * 64,
    )


def make_linear(seed=0, kind=KIND):
    rng = np.random.default_rng(seed)
    width = len(DENSE_NAMES)
    dense = DenseTerm(
        weights=rng.normal(size=width).astype(np.float32),
        mean=np.full(width, 1.0, np.float32),
        scale=np.full(width, 2.0, np.float32),
        low=np.zeros(width, np.float32),
        high=np.full(width, 8.0, np.float32),
    )
    return LinearPredictor(
        manifest=make_manifest(kind),
        frame=make_frame(),
        weights=rng.normal(scale=0.1, size=BUCKETS).astype(np.float32),
        dense=dense,
        intercept=4.5,
        calibration=fit(make_observations(), make_observations(500, seed=1)),
    )


TREES = """tree
version=v4

Tree=0
num_leaves=3
split_feature=0 9
threshold=4.5 0.01
decision_type=2 2
left_child=-1 -2
right_child=1 -3
leaf_value=-0.5 0.25 0.75

Tree=1
num_leaves=1
leaf_value=0.125

end of trees
"""


def make_lambdarank():
    columns = np.sort(np.random.default_rng(2).choice(BUCKETS, 200, replace=False))
    trees = parse(TREES, tree_width(columns))
    return LambdaRankPredictor(make_linear(kind="lambdarank"), 1.5, columns, trees)


def make_student(tokens=40_000, width=8, channels=12):
    rng = np.random.default_rng(3)

    def weights(*shape):
        return rng.normal(scale=0.2, size=shape).astype(np.float32)

    network = StudentNetwork(
        table=weights(tokens + 1, width),
        first=weights(3 * width, channels),
        first_bias=weights(channels),
        second=weights(3 * channels, channels),
        second_bias=weights(channels),
        hidden=weights(3 * channels, 5),
        hidden_bias=weights(5),
        out=weights(5),
        out_bias=weights(1),
    )
    return StudentPredictor(make_linear(kind="student"), network, 0.5)


def served_tokenizer(size=50_000):
    """A tokenizer whose token i is the word "wi"."""
    tokenizers = pytest.importorskip("tokenizers")
    words = {f"w{place}": place for place in range(size)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return tokenizer


def backbone_tokenizer():
    """Word pieces of single characters, padded and cut as saved tokenizers often are."""
    tokenizers = pytest.importorskip("tokenizers")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    characters = "abcdefghijklmnopqrstuvwxyz0123456789?.,"
    pieces += [*characters, *(f"##{character}" for character in characters)]
    vocabulary = {piece: place for place, piece in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    return tokenizer


def make_backbone(seed=0):
    """A BERT of two tiny layers with random weights."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=backbone_tokenizer().get_vocab_size(),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=80,
    )
    return transformers.BertModel(config)


def make_text(window_tokens=64, both_ends=True):
    return EncoderText(
        served_tokenizer().to_str(),
        backbone_tokenizer().to_str(),
        make_frame(),
        window_tokens,
        both_ends,
    )


def make_encoder(seed=0):
    torch = pytest.importorskip("torch")
    from sjf_predictor.encoder_network import with_head

    network = with_head(make_backbone(seed))
    torch.nn.init.normal_(network["head"].weight)
    return EncoderPredictor(make_linear(kind="encoder"), make_text(), network, 0.5)


def make_prompts(count=40, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 50_000, rng.integers(1, 700)).tolist() for _ in range(count)]


def make_predictors():
    prompts = make_prompts()
    lengths = np.random.default_rng(1).integers(1, 900, len(prompts)).tolist()
    return {
        "linear": make_linear(),
        "lambdarank": make_lambdarank(),
        "student": make_student(),
        "encoder": make_encoder(),
        "constant": controls.ConstantPredictor(),
        "prompt_length": controls.PromptLengthPredictor(),
        "oracle": controls.oracle(prompts, lengths),
        "noisy_oracle": controls.noisy_oracle(prompts, lengths, tau=0.5),
        "reversed": controls.reversed_oracle(prompts, lengths),
    }


@pytest.fixture(scope="session")
def predictors():
    return make_predictors()


@pytest.fixture(scope="session")
def linear(predictors):
    return predictors["linear"]


@pytest.fixture(scope="session")
def encoder(predictors):
    return predictors["encoder"]


@pytest.fixture
def encoder_text():
    return make_text


@pytest.fixture
def prompts():
    return make_prompts()


@pytest.fixture
def frame():
    return make_frame()


@pytest.fixture
def observe():
    return make_observations
