"""An encoder that is ready for inference gives the states of the plain one, and never those of old weights."""

import numpy as np
import pytest
import torch

from plait.encoder.config import read_config
from plait.encoder.packing import pack
from plait.encoder.prepared import Prepared
from plait.encoder.weights import encoder_from

LENGTHS = (1, 3, 3, 7, 12, 12, 12, 1)


@pytest.fixture(params=["tiny_bert", "tiny_roberta"])
def encoder(request):
    folder = request.getfixturevalue(request.param)
    return encoder_from(folder, read_config(folder), pooler=False).eval()


def some_texts(encoder):
    random = np.random.default_rng(0)
    ids = [random.integers(5, encoder.config.vocab_size, length).astype(np.int32) for length in LENGTHS]
    return pack(ids, LENGTHS, first_position=encoder.config.first_position, device=torch.device("cpu"))


@torch.inference_mode()
def test_states_are_those_of_the_plain_encoder(encoder):
    packed = some_texts(encoder)
    difference = (Prepared(encoder)(packed) - encoder(packed)).abs().max()
    assert 0 <= difference < 1e-5


def test_it_is_kept_while_the_weights_are_the_same(encoder):
    prepared = Prepared.of(encoder, None)
    assert prepared is not None
    assert Prepared.of(encoder, prepared) is prepared


def test_it_is_made_anew_when_weights_are_loaded(encoder):
    prepared = Prepared.of(encoder, None)
    state = {name: tensor.flip(0).contiguous() for name, tensor in encoder.state_dict().items()}
    encoder.load_state_dict(state)
    anew = Prepared.of(encoder, prepared)
    assert anew is not prepared
    with torch.inference_mode():
        packed = some_texts(encoder)
        assert (anew(packed) - encoder(packed)).abs().max() < 1e-5
        assert (prepared(packed) - encoder(packed)).abs().max() > 1e-2


def test_there_is_none_for_other_numbers_than_float32(encoder):
    assert Prepared.of(encoder.double(), None) is None
