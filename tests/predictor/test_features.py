"""Features: what they see, what they must not see, and that they never change by accident."""

import hashlib

import numpy as np

from sjf_predictor.base import PromptFeatures
from sjf_predictor.features import BUCKETS, DENSE_NAMES, FEATURE_VERSION, extract
from sjf_predictor.frame import PromptFrame

HEADER = [2, 198, 1, 4093, 198]
SUFFIX = [2, 198, 1, 520, 9531, 198]
SYSTEM = [1, 77, 78, 79, 80, 81, 82, 83, 84]


def chat(own, system=SYSTEM):
    return [*system, *HEADER, *own, *SUFFIX]


def row_bytes(row):
    return row.indices.tobytes() + row.values.tobytes() + row.dense.tobytes()


def test_version_is_raised_when_features_change(frame):
    prompt = chat(list(range(100, 500)))
    row = extract(PromptFeatures(prompt, 512, 0.7, 2, True, True), frame)
    digest = hashlib.sha256(row.indices.tobytes()).hexdigest()[:16]
    # A new digest needs a new FEATURE_VERSION: artifacts in use were trained on this one.
    assert (FEATURE_VERSION, digest) == (1, "4f38cebb6fdd4228")


def test_list_array_and_tuple_give_the_same_bytes(frame):
    prompt = chat(list(range(100, 900)))
    forms = [prompt, tuple(prompt), np.array(prompt), np.array(prompt, dtype=np.int32)]
    rows = {row_bytes(extract(PromptFeatures(form), frame)) for form in forms}
    assert len(rows) == 1


def test_indices_are_distinct_and_in_range(frame):
    row = extract(PromptFeatures(chat([7] * 300 + list(range(300)))), frame)
    assert len(np.unique(row.indices)) == len(row.indices) == len(row.values)
    assert row.indices.min() >= 0
    assert row.indices.max() < BUCKETS
    assert row.dense.shape == (len(DENSE_NAMES),)


def test_head_starts_after_system_prompt_and_earlier_turns(frame):
    own = list(range(300, 330))
    earlier = [*HEADER, *range(900, 1100), *SUFFIX, *range(1200, 1400)]
    plain = extract(PromptFeatures(chat(own)), frame)
    later = extract(PromptFeatures([*SYSTEM, *earlier, *HEADER, *own, *SUFFIX]), frame)
    head = 1 << 19
    assert set(plain.indices[plain.indices < head]) == set(later.indices[later.indices < head])


def test_unknown_long_system_prompt_does_not_hide_the_question(frame):
    system = list(range(20_000, 21_000))
    one = extract(PromptFeatures(chat([5, 6, 7], system)), frame)
    other = extract(PromptFeatures(chat([8, 9, 10], system)), frame)
    head = 1 << 19
    assert set(one.indices[one.indices < head]) != set(other.indices[other.indices < head])


def test_tail_is_seen(frame):
    own = list(range(1000, 1600))
    changed = [*own[:-3], 1, 1, 1]
    a, b = (extract(PromptFeatures(chat(x)), frame).indices for x in (own, changed))
    in_tail = (b >= 1 << 19) & (b < (1 << 19) + (1 << 16))
    assert set(b[in_tail]) - set(a)


def test_no_frame_at_all():
    row = extract(PromptFeatures([1, 2, 3]), PromptFrame())
    assert len(row.indices) > 0
