"""A prepared encoder gives the states of the plain one, and never those of old weights."""

import numpy as np
import pytest
import torch

from plait.encoder.config import read_config
from plait.encoder.cpu.prepared import Prepared
from plait.encoder.packing import pack
from plait.encoder.weights import encoder_from

LENGTHS = (1, 3, 3, 7, 12, 12, 12, 1)


@pytest.fixture(params=["tiny_bert", "tiny_roberta", "tiny_distilbert", "tiny_mpnet", "tiny_modernbert"])
def encoder(request):
    folder = request.getfixturevalue(request.param)
    return encoder_from(folder, read_config(folder), pooler=False).eval()


def some_texts(encoder):
    random = np.random.default_rng(0)
    ids = [random.integers(5, encoder.config.vocab_size, length).astype(np.int32) for length in LENGTHS]
    return pack(ids, LENGTHS, first_position=encoder.config.first_position, device=torch.device("cpu"))


@torch.inference_mode()
def test_states_equal_those_of_the_plain_encoder(encoder):
    packed = some_texts(encoder)
    difference = (Prepared(encoder)(packed) - encoder(packed)).abs().max()
    assert 0 <= difference < 1e-5


def test_prepared_encoder_is_reused_while_the_weights_are_the_same(encoder):
    prepared = Prepared.of(encoder, None)
    assert prepared is not None
    assert Prepared.of(encoder, prepared) is prepared


def test_encoder_is_prepared_again_after_weights_were_loaded(encoder):
    prepared = Prepared.of(encoder, None)
    state = {name: tensor.flip(0).contiguous() for name, tensor in encoder.state_dict().items()}
    encoder.load_state_dict(state)
    again = Prepared.of(encoder, prepared)
    assert again is not prepared
    with torch.inference_mode():
        packed = some_texts(encoder)
        assert (again(packed) - encoder(packed)).abs().max() < 1e-5
        assert (prepared(packed) - encoder(packed)).abs().max() > 1e-2


def test_only_float32_is_prepared(encoder):
    assert Prepared.of(encoder.double(), None) is None
