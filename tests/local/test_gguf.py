"""The preflight: what it reads, and that no bad file gets past it or costs more than a look."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.local.models.gguf import GgufError, Items, read_gguf
from rivermouth.local.models.support import Unsupported, facts_of, inspect, parameters_label
from tests.tiny_gguf import ALIGNMENT, TEMPLATE, assemble, build, key, text


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="module")
def whole(tiny: Path) -> bytes:
    return tiny.read_bytes()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bad") / "bad.gguf"


def header_end(whole: bytes) -> int:
    """Where the data begins: the first embedding row is all that the header is followed by."""
    return whole.rindex(b"blk.0.ffn_down.weight") + len(b"blk.0.ffn_down.weight") + 4 + 16 + 4 + 8


def test_it_reads_what_the_file_says(tiny: Path) -> None:
    facts = inspect(tiny)
    assert facts.architecture == "llama"
    assert facts.name == "tiny-scripted"
    assert facts.license == "apache-2.0"
    assert facts.context_tokens == 2048
    assert facts.template == TEMPLATE
    assert facts.quantization == "Q8_0"
    assert facts.end_tokens == (2,)
    assert facts.longest_token_bytes == len("<|endoftext|>")
    assert not facts.unpacked


def test_arrays_are_counted_and_not_kept(tiny: Path) -> None:
    file = read_gguf(tiny)
    assert file.keys["tokenizer.ggml.tokens"] == Items(288, 13)
    assert file.keys["tokenizer.ggml.token_type"] == Items(288)


def test_a_file_of_half_floats_is_marked(tmp_path: Path) -> None:
    facts = inspect(build(tmp_path / "f16.gguf", unpacked=True))
    assert facts.unpacked
    assert facts.quantization == "F16"


def test_every_token_that_ends_an_answer_is_known(whole: bytes, scratch: Path) -> None:
    """The one that is named by another key here ends an answer all the same."""
    for end in ("eot", "eom"):
        scratch.write_bytes(whole.replace(b"tokenizer.ggml.eos_token_id", f"tokenizer.ggml.{end}_token_id".encode()))
        assert inspect(scratch).end_tokens == (2,)
    scratch.write_bytes(whole.replace(b"tokenizer.ggml.eos_token_id", b"tokenizer.ggml.eox_token_id"))
    with pytest.raises(GgufError):
        inspect(scratch)


def test_a_file_without_a_template_says_so(tmp_path: Path) -> None:
    assert inspect(build(tmp_path / "plain.gguf", template=None)).template is None


@pytest.mark.parametrize(
    ("count", "label"),
    [(134_515_008, "135M"), (7_241_000_000, "7.24B"), (378_720, "379K"), (999, "999"), (1_500_000_000_000, "1500B")],
)
def test_parameters_have_three_digits(count: int, label: str) -> None:
    assert parameters_label(count) == label


def test_every_truncation_is_refused(whole: bytes, scratch: Path) -> None:
    """Each byte of the beginning, then every 97th, then the last: never a success, never another error."""
    end = header_end(whole)
    cuts = [*range(300), *range(300, end, 97), *range(end - 40, end + 1), len(whole) - 1]
    for cut in cuts:
        scratch.write_bytes(whole[:cut])
        with pytest.raises(GgufError):
            inspect(scratch)


@given(data=st.data())
def test_a_mutated_header_is_refused_or_read(data: st.DataObject, whole: bytes, scratch: Path) -> None:
    """A changed byte may be harmless (a letter of a name); it never raises anything but its own error."""
    end = header_end(whole)
    broken = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, end - 1))
        broken[at] = data.draw(st.integers(0, 255))
    scratch.write_bytes(broken)
    with contextlib.suppress(GgufError):
        inspect(scratch)


@given(junk=st.binary(max_size=400))
def test_junk_is_refused(junk: bytes, scratch: Path) -> None:
    for head in (b"", b"GGUF", b"GGUF" + struct.pack("<IQQ", 3, 1, 1)):
        scratch.write_bytes(head + junk)
        with pytest.raises(GgufError):
            inspect(scratch)


@pytest.mark.parametrize(
    "lie",
    [
        struct.pack("<IQQ", 3, 1 << 62, 1),
        struct.pack("<IQQ", 3, 1, 1 << 62),
        struct.pack("<IQQ", 3, 1, 1) + struct.pack("<Q", 1 << 62),
        struct.pack("<IQQ", 3, 1, 1) + text("k") + struct.pack("<IQ", 8, 1 << 40),
        struct.pack("<IQQ", 3, 1, 1) + text("k") + struct.pack("<IIQ", 9, 8, 1 << 62),
        struct.pack("<IQQ", 3, 1, 1) + text("k") + struct.pack("<IIQ", 9, 8, 1 << 24),
        struct.pack("<IQQ", 3, 1, 1) + text("k") + struct.pack("<IIQ", 9, 12, 1 << 62),
        struct.pack("<IQQ", 3, 1, 1) + text("k") + struct.pack("<IIQ", 9, 9, 2),
    ],
)
@pytest.mark.fault("F35")
def test_what_a_header_claims_costs_no_memory(lie: bytes, scratch: Path) -> None:
    scratch.write_bytes(b"GGUF" + lie + bytes(4096))
    tracemalloc.start()
    try:
        with pytest.raises(GgufError):
            inspect(scratch)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


def one_tensor(extents: tuple[int, ...], kind: int, size: int = 4096) -> bytes:
    return assemble([key("general.architecture", "llama")], {"t": (extents, kind, bytes(size))})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (one_tensor((), 0), "rank 0"),
        (one_tensor((1, 1, 1, 1, 1), 0), "rank 5"),
        (one_tensor((0,), 0), "rows of 0"),
        (one_tensor((31,), 8), "rows of 31"),
        (one_tensor((32,), 4), "not known"),
        (one_tensor((1 << 40,), 0), "truncated"),
        (one_tensor((1 << 63, 1 << 63), 0), "truncated"),
        (b"GGUF" + struct.pack("<IQQ", 1, 1, 1), "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1), "no tensors"),
        (assemble([key("general.alignment", 7)], {"t": ((32,), 0, bytes(128))}), "alignment"),
        (assemble([key("a", 1), key("a", 1)], {"t": ((32,), 0, bytes(128))}), "twice"),
    ],
)
def test_impossible_headers_are_refused_in_words(body: bytes, words: str, scratch: Path) -> None:
    scratch.write_bytes(body)
    with pytest.raises(GgufError, match=words):
        read_gguf(scratch)


def test_other_architectures_are_unsupported_by_name(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="gemma3"):
        inspect(build(tmp_path / "g.gguf", architecture="gemma3"))


def test_other_packings_are_unsupported_by_name(whole: bytes, scratch: Path) -> None:
    at = whole.index(b"blk.0.ffn_up.weight") + len(b"blk.0.ffn_up.weight") + 4 + 16
    assert whole[at] == 8
    scratch.write_bytes(whole[:at] + struct.pack("<I", 6) + whole[at + 4 :])
    with pytest.raises(Unsupported, match="Q5_0"):
        inspect(scratch)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("llama.block_count", lambda value: 2),
        ("llama.embedding_length", lambda value: value + 32),
        ("llama.attention.head_count", lambda value: 7),
        ("llama.attention.head_count_kv", lambda value: 2),
        ("llama.context_length", lambda value: 0),
        ("llama.feed_forward_length", lambda value: 64),
        ("tokenizer.ggml.eos_token_id", lambda value: 288),
    ],
)
def test_keys_that_contradict_the_tensors_are_refused(tiny: Path, name: str, change: Callable[[int], int]) -> None:
    file = read_gguf(tiny)
    value = file.keys[name]
    assert isinstance(value, int)
    file.keys[name] = change(value)
    with pytest.raises(GgufError):
        facts_of(file)


def test_a_missing_key_or_tensor_is_refused(tiny: Path) -> None:
    needed = [
        "general.architecture", "llama.block_count", "llama.embedding_length", "llama.attention.head_count",
        "llama.context_length", "llama.feed_forward_length", "tokenizer.ggml.tokens", "tokenizer.ggml.eos_token_id",
    ]  # fmt: skip
    for name in needed:
        file = read_gguf(tiny)
        del file.keys[name]
        with pytest.raises(GgufError):
            facts_of(file)
    for name in read_gguf(tiny).tensors:
        if name == "output.weight":  # tied to the embeddings where it is absent
            continue
        file = read_gguf(tiny)
        del file.tensors[name]
        with pytest.raises(GgufError):
            facts_of(file)


def test_the_alignment_of_the_builder_is_the_format_s(whole: bytes) -> None:
    assert (len(whole) - ALIGNMENT) % ALIGNMENT == 0
