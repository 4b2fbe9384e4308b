"""The 8-bit backbone makes the sums that the transformers module makes."""

import dataclasses

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from sjf_predictor import encoder_network
from sjf_predictor.encoder_fast import Float32Linear, Int8Linear, fast_bert


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=400,
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=80,
    )
    made = encoder_network.with_head(transformers.BertModel(config))
    with torch.no_grad():
        for parameter in made.parameters():  # biases and norms start at 0 and 1
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made


def prompts():
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(0, 400, (count,), generator=generator) for count in (1, 2, 7, 31, 64, 80)]


def test_float32_equals_the_module(network):
    bert = fast_bert(network["backbone"], Float32Linear)
    with torch.inference_mode():
        for ids in prompts():
            wanted = network["backbone"](input_ids=ids[None]).last_hidden_state[0]
            torch.testing.assert_close(bert(ids), wanted, rtol=1e-4, atol=1e-5)


def test_int8_is_close(network):
    exact = fast_bert(network["backbone"], Float32Linear)
    rounded = fast_bert(network["backbone"], Int8Linear)
    with torch.inference_mode():
        for ids in prompts():
            wanted, found = exact(ids), rounded(ids)
            assert (found - wanted).pow(2).mean() < 0.002 * wanted.pow(2).mean()


def test_a_row_of_zeros_divides_by_nothing():
    layer = Int8Linear(torch.zeros(3, 4), torch.tensor([1.0, 2.0, 3.0]))
    assert layer(torch.zeros(2, 4)).tolist() == [[1.0, 2.0, 3.0]] * 2


@pytest.mark.parametrize("change", [{"model_type": "roberta"}, {"hidden_act": "relu"}])
def test_another_backbone_is_left_alone(network, change):
    backbone = dataclasses.make_dataclass("Backbone", ["config"])(
        transformers.BertConfig(**{k: v for k, v in change.items() if k != "model_type"})
    )
    if "model_type" in change:
        backbone.config.model_type = change["model_type"]
    assert fast_bert(backbone) is None


@pytest.mark.parametrize("int8", [True, False])
@pytest.mark.parametrize("bfloat16", [True, False])
def test_every_way_of_serving_agrees(network, monkeypatch, int8, bfloat16):
    monkeypatch.setattr(encoder_network, "multiplies_int8", lambda: int8)
    monkeypatch.setattr(encoder_network, "_multiplies_bfloat16", lambda: bfloat16)
    with torch.no_grad():
        network["head"].weight.normal_(generator=torch.Generator().manual_seed(1))
    score = encoder_network.for_serving(network)
    size = float(network["head"].weight.detach().norm())
    with torch.inference_mode():
        for ids in prompts():
            wanted = float(encoder_network.scores(network, ids[None])[0])
            assert score(ids) == pytest.approx(wanted, abs=0.1 * size)
    assert network["backbone"].dtype == torch.float32
