"""Configuration errors name the key and the fix."""

import pytest

from vllm_sjf.config import ConfigError, Mode, SJFConfig


def test_nothing_given_means_defaults():
    assert SJFConfig.parse(None) == SJFConfig.parse({}) == SJFConfig()
    assert [each.name for each in SJFConfig().classes] == ["interactive", "batch"]


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ({"predicter": "x"}, "sjf.predicter"),
        ({"aging_tokens_per_s": "fast"}, "sjf.aging_tokens_per_s"),
        ({"aging_tokens_per_s": 0}, "sjf.aging_tokens_per_s"),
        ({"aging_tokens_per_s": float("nan")}, "sjf.aging_tokens_per_s"),
        ({"max_pushback_s": -1}, "sjf.max_pushback_s"),
        ({"max_pushback_s": True}, "sjf.max_pushback_s"),
        ({"mode": "srpt"}, "sjf.mode"),
        ({"predictor": 7}, "sjf.predictor"),
        ({"predictor": ""}, "sjf.predictor"),
        ({"classes": []}, "sjf.classes"),
        ({"classes": [{"name": "chat"}]}, "sjf.classes.0.rank"),
        ({"classes": [{"name": "chat", "rank": 0, "wight": 3}]}, "sjf.classes.0.wight"),
        ({"classes": [{"name": "a", "rank": 0}, {"name": "a", "rank": 1}]}, "sjf.classes"),
        ([1], "sjf"),
        ("none", "sjf"),
    ],
)
def test_a_bad_section_is_refused_by_key(section, key):
    with pytest.raises(ConfigError) as error:
        SJFConfig.parse(section)
    message = str(error.value)
    assert message.startswith(f"{key}:")
    assert "\n" not in message


def test_unknown_key_lists_the_known_ones():
    with pytest.raises(ConfigError, match="aging_tokens_per_s"):
        SJFConfig.parse({"aging": 1.0})


def test_a_class_given_by_its_place_is_told_that_the_list_is_one_value():
    with pytest.raises(ConfigError, match=r"sjf.classes: must be a list, given whole"):
        SJFConfig.parse({"classes": {"0": {"rank": 1}}})


def test_integers_are_accepted_where_seconds_are_asked():
    assert SJFConfig.parse({"max_pushback_s": 30}).max_pushback_s == 30.0


def test_a_section_from_json_is_read_whole():
    config = SJFConfig.parse(
        {"mode": "shadow", "classes": [{"name": "chat", "rank": 2, "max_wait_s": 5}]}
    )
    assert config.mode is Mode.SHADOW
    assert config.classes[0].max_wait_s == 5.0
