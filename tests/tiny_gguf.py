"""Builds a tiny real model file that says a scripted text, byte for byte.

The network is a hand-made successor machine: embeddings are one-hot, every attention and feed-forward matrix is zero
(so each block passes its input on), and the output matrix is a table of who follows whom.  Greedy decoding then walks
the script, free of rounding, while everything around it is real: file, tokenizer, template, memory, sampler, stream.

A token outside the script (the end of any prompt) leads to the script's first.  A token may stand in it only once;
`cut` divides any text into tokens that do.  The file has about 400 KB, and grows with the square of the script.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

SCRIPT: Final = ("Hello", " from", " a", " tiny", " local", " model", " \U0001f600", " bye", ".")
TEXT: Final = "".join(SCRIPT)
TEMPLATE: Final = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
SPECIAL: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
UNKNOWN, BEGIN, END = 0, 1, 2
HEAD_WIDTH: Final = 32
INNER: Final = 32
ALIGNMENT: Final = 32

_F32, _Q8_0, _F16 = 0, 8, 1
_U32, _I32, _FLOAT, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_BLOCK: Final = 32


CUT_CHARS: Final = 3


def cut(said: str, marks: Sequence[str] = ()) -> tuple[str, ...]:
    """A script that says the text: ASCII, in pieces of a few characters of which no two are the same.

    marks: what is a piece of its own, as often as it may stand in a script, which is once.
    """
    rest, pieces = said, [""]
    while rest:
        mark = next((mark for mark in marks if rest.startswith(mark)), None)
        limit = min((at for mark in marks if (at := rest.find(mark)) > 0), default=len(rest))
        length = len(mark) if mark else min(CUT_CHARS, limit)
        while not mark and length < limit and rest[:length] in pieces:
            length += 1
        if not mark and limit - length == 1:  # no piece of one character: it would be a byte of any prompt
            length = limit
        pieces.append(rest[:length])
        rest = rest[length:]
    assert len(set(pieces)) == len(pieces), "the text cannot be divided so"
    return tuple(pieces[1:])


def build(
    path: Path,
    script: Sequence[str] = SCRIPT,
    *,
    loop: bool = False,
    ctx: int = 2048,
    template: str | None = TEMPLATE,
    unpacked: bool = False,
    architecture: str = "llama",
    marks: Sequence[str] = (),
) -> Path:
    """Writes the file and returns its path.

    loop: after the script comes its beginning, so an answer ends by length, a stop string or a cancel only.
    template: None for a file without a chat template.  unpacked: matrices of F16 instead of Q8_0.
    marks: special tokens beside the usual ones, which decoding leaves out unless it is asked for them.
    """
    vocabulary, merges, sequence = _vocabulary(script, marks)
    size = len(vocabulary)
    successor = dict(pairwise(sequence))
    successor[sequence[-1]] = sequence[0] if loop else END
    tensors = _tensors(size, {token: successor.get(token, sequence[0]) for token in range(size)}, unpacked)
    keys = _keys(vocabulary, merges, ctx, template, architecture, marks)
    path.write_bytes(assemble(keys, tensors))
    return path


def assemble(keys: Sequence[bytes], tensors: Mapping[str, tuple[tuple[int, ...], int, bytes]]) -> bytes:
    """A whole file from encoded keys, and tensors as (extents, type, data)."""
    infos, data = b"", b""
    for name, (extents, kind, body) in tensors.items():
        infos += text(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, kind, len(data))
        data += body + bytes(-len(body) % ALIGNMENT)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + infos
    return head + bytes(-len(head) % ALIGNMENT) + data


def text(value: str | bytes) -> bytes:
    """A string as the header has it: length, then bytes."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def key(name: str, value: object) -> bytes:
    """One key of the header, typed by its value."""
    head = text(name)
    match value:
        case bool():
            return head + struct.pack("<I?", _BOOL, value)
        case int():
            return head + struct.pack("<II", _U32, value)
        case float():
            return head + struct.pack("<If", _FLOAT, value)
        case str():
            return head + struct.pack("<I", _STRING) + text(value)
        case list() if all(isinstance(item, int) for item in value) and value:
            return head + struct.pack(f"<IIQ{len(value)}i", _ARRAY, _I32, len(value), *value)
        case list():
            return head + struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(text, value))
    raise TypeError(value)


def _vocabulary(script: Sequence[str], marks: Sequence[str]) -> tuple[list[str], list[str], list[int]]:
    """All tokens, the merges that encode the script's words as one token each, and the script as token numbers."""
    letters = _byte_letters()
    tokens = [*SPECIAL, *letters, *marks]
    merges: list[str] = []
    sequence: list[int] = []
    for word in script:
        if word in marks:
            sequence.append(tokens.index(word))
            continue
        if not word.isascii():  # as single bytes, on purpose: a character then spans tokens
            sequence += [len(SPECIAL) + byte for byte in word.encode()]
            continue
        spelled = "".join(letters[byte] for byte in word.encode())
        for cut in range(1, len(spelled)):
            merge = f"{spelled[:cut]} {spelled[cut]}"
            if merge not in merges:
                merges.append(merge)
            if spelled[: cut + 1] not in tokens:
                tokens.append(spelled[: cut + 1])
        sequence.append(tokens.index(spelled))
    assert len(set(sequence)) == len(sequence), "a token stands twice in the script"
    tokens += [f"<pad{n}>" for n in range(-len(tokens) % _BLOCK)]
    return tokens, merges, sequence


def _byte_letters() -> list[str]:
    """The printable letter that stands for each byte in byte-level vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    return [letters[byte] for byte in range(256)]


def _keys(
    tokens: list[str], merges: list[str], ctx: int, template: str | None, architecture: str, marks: Sequence[str]
) -> list[bytes]:
    width = len(tokens)
    values: dict[str, object] = {
        "general.architecture": architecture,
        "general.name": "tiny-scripted",
        "general.license": "apache-2.0",
        "general.file_type": 7,
        f"{architecture}.block_count": 1,
        f"{architecture}.context_length": ctx,
        f"{architecture}.embedding_length": width,
        f"{architecture}.feed_forward_length": INNER,
        f"{architecture}.attention.head_count": width // HEAD_WIDTH,
        f"{architecture}.attention.head_count_kv": 1,
        f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{architecture}.rope.freq_base": 10000.0,
        f"{architecture}.rope.dimension_count": HEAD_WIDTH,
        f"{architecture}.vocab_size": width,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in (*SPECIAL, *marks) else 1 for token in tokens],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": BEGIN,
        "tokenizer.ggml.eos_token_id": END,
        "tokenizer.ggml.unknown_token_id": UNKNOWN,
        "tokenizer.ggml.padding_token_id": END,
        "tokenizer.ggml.add_bos_token": False,
    }
    if template is not None:
        values["tokenizer.chat_template"] = template
    return [key(name, value) for name, value in values.items()]


def _tensors(size: int, successor: Mapping[int, int], unpacked: bool) -> dict[str, tuple[tuple[int, ...], int, bytes]]:
    pack, kind = (_f16, _F16) if unpacked else (_q8_0, _Q8_0)
    before: list[set[int]] = [set() for _ in range(size)]
    for token, follower in successor.items():
        before[follower].add(token)

    def matrix(width: int, rows: Sequence[set[int]]) -> tuple[tuple[int, ...], int, bytes]:
        return (width, len(rows)), kind, b"".join(pack(width, ones) for ones in rows)

    def zeros(width: int, rows: int) -> tuple[tuple[int, ...], int, bytes]:
        return matrix(width, [set()] * rows)

    ones = ((size,), _F32, struct.pack(f"<{size}f", *[1.0] * size))
    return {
        "token_embd.weight": matrix(size, [{token} for token in range(size)]),
        "output.weight": matrix(size, before),
        "output_norm.weight": ones,
        "blk.0.attn_norm.weight": ones,
        "blk.0.ffn_norm.weight": ones,
        "blk.0.attn_q.weight": zeros(size, size),
        "blk.0.attn_k.weight": zeros(size, HEAD_WIDTH),
        "blk.0.attn_v.weight": zeros(size, HEAD_WIDTH),
        "blk.0.attn_output.weight": zeros(size, size),
        "blk.0.ffn_gate.weight": zeros(size, INNER),
        "blk.0.ffn_up.weight": zeros(size, INNER),
        "blk.0.ffn_down.weight": zeros(INNER, size),
    }


def _q8_0(width: int, ones: set[int]) -> bytes:
    """One row: blocks of a half-precision scale and 32 bytes."""
    blocks = []
    for start in range(0, width, _BLOCK):
        values = [127 if start + n in ones else 0 for n in range(_BLOCK)]
        blocks.append(struct.pack(f"<e{_BLOCK}b", 1 / 127 if any(values) else 0.0, *values))
    return b"".join(blocks)


def _f16(width: int, ones: set[int]) -> bytes:
    return struct.pack(f"<{width}e", *(1.0 if n in ones else 0.0 for n in range(width)))
