"""The network as it is built, against the same network written down once more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino
import pytest

from rivermouth.local.embedding.batches import Item
from rivermouth.local.embedding.bert import read_config
from rivermouth.local.embedding.encoder import Network, check_room, load_network, padded
from rivermouth.local.embedding.weights import BadWeights, Weights
from tests.tiny_bert import WIDTH, assemble, build, ids_of, vector_of

TEXTS = ("the river", "sea", "mouth of the river stream", "", "abc . xyz !", "the the the the the the the")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def network(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Network:
    return load_network(openvino, folder, tmp_path_factory.mktemp("cache"), "CPU")[0]


def run(network: Network, *texts: str) -> np.ndarray:
    return network(*padded([Item(1, n, tuple(ids_of(text))) for n, text in enumerate(texts)]))


def test_its_vectors_are_right_and_of_length_1(network: Network) -> None:
    """Texts of different lengths together: what fills the shorter ones up has no effect."""
    vectors = run(network, *TEXTS)
    np.testing.assert_allclose(vectors, [vector_of(ids_of(text)) for text in TEXTS], atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(run(network, text)[0], vector, atol=2e-6)


def test_every_token_and_its_place_count(network: Network) -> None:
    one, other, more = run(network, "sea river", "river sea", "river sea the")
    assert np.abs(one - other).max() > 0.01
    assert np.abs(other - more).max() > 0.01


def test_from_the_cache_it_is_the_same(folder: Path, tmp_path: Path) -> None:
    built = load_network(openvino, folder, tmp_path, "CPU")[0]
    (folder / "model.safetensors").rename(folder / "away")
    try:
        cached = load_network(openvino, folder, tmp_path, "CPU")[0]  # the weights are not needed any more
        np.testing.assert_array_equal(run(built, *TEXTS), run(cached, *TEXTS))
        assert list(tmp_path.glob("*/compiled/*.blob"))
    finally:
        (folder / "away").rename(folder / "model.safetensors")


def test_a_cache_that_cannot_be_written_is_done_without(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    network = load_network(openvino, folder, tmp_path / "file" / "cache", "CPU")[0]
    np.testing.assert_allclose(run(network, "sea"), [vector_of(ids_of("sea"))], atol=2e-6)
    assert "could not be stored" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"model_type": "roberta"}, "model_type is 'roberta'"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"num_attention_heads": 3}, "do not fit together"),
        ({"num_attention_heads": 0}, "do not fit together"),
        ({"num_hidden_layers": 1 << 30}, "do not fit together"),
        ({"vocab_size": -1}, "do not fit together"),
        ({"hidden_size": "16"}, "cannot be read"),
    ],
)
def test_a_config_of_another_network_is_refused(tmp_path: Path, said: dict[str, object], words: str) -> None:
    with pytest.raises(BadWeights, match=words):
        read_config(build(tmp_path, **said) / "config.json")


@pytest.mark.parametrize(
    ("said", "without", "words"),
    [
        ({}, ["encoder.layer.1.output.dense.bias"], "no tensor 'encoder.layer.1.output.dense.bias'"),
        ({"intermediate_size": 64}, [], r"has the shape \[32, 16\] instead of \[64, 16\]"),
        ({"num_hidden_layers": 3}, [], "no tensor 'encoder.layer.2"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    tmp_path: Path, said: dict[str, object], without: list[str], words: str
) -> None:
    folder = build(tmp_path / "files", without=without, **said)
    with pytest.raises(BadWeights, match=words):
        load_network(openvino, folder, tmp_path / "cache", "CPU")
    assert not (tmp_path / "cache").exists()


def test_a_limit_beyond_the_positions_is_refused(folder: Path) -> None:
    config = read_config(folder / "config.json")
    check_room(config, config.max_position_embeddings)
    for tokens in (config.max_position_embeddings + 1, 2):
        with pytest.raises(BadWeights, match="the network reads 32 tokens"):
            check_room(config, tokens)


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        ("F32", np.array([[1.5, -2.0]], "<f4")),
        ("F16", np.array([[1.5, -2.0]], "<f2")),
        ("BF16", np.array([[0x3FC0, 0xC000]], "<u2")),
    ],
)
def test_numbers_of_every_kind(tmp_path: Path, dtype: str, numbers: np.ndarray) -> None:
    path = tmp_path / "w"
    path.write_bytes(assemble({"a": np.zeros(3, numbers.dtype), "b": numbers}, dtype))
    with Weights(path) as weights:
        read = weights.tensor("b", 1, 2)
        assert read.dtype == np.float32
        assert read.tolist() == [[1.5, -2.0]]
        with pytest.raises(BadWeights, match="no tensor 'c'"):
            weights.tensor("c", 1)


def test_numbers_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w"
    path.write_bytes(assemble({"a": np.zeros(3, "<i8")}, "I64"))
    with Weights(path) as weights, pytest.raises(BadWeights, match="is of I64"):
        weights.tensor("a", 3)


def test_its_width_is_what_the_config_says(network: Network) -> None:
    assert run(network, "sea").shape == (1, WIDTH)
