"""What a model needs of the memory, and what is free."""

from __future__ import annotations

from pathlib import Path

from rivermouth.ir.errors import Kind
from rivermouth.local.machine.memory import (
    BASE_BYTES,
    LEAST_TOKENS,
    MARGIN_TOKENS,
    Need,
    element_bytes,
    free_bytes,
    need_of,
    token_elements,
    too_little,
    usable_context,
)
from rivermouth.wire import json

MB = 1 << 20


def need(**fields: int | None) -> Need:
    known = {"files_bytes": 100 * MB, "token_bytes": 1000, "context_tokens": 4096, "max_active": 4,
             "kv_bytes": 1 << 30, "free_bytes": None}  # fmt: skip
    return need_of(**(known | fields))  # type: ignore[arg-type]


def test_the_memory_of_answers_is_for_all_of_them_where_the_limit_allows() -> None:
    assert need().kv_tokens == 4 * (4096 + MARGIN_TOKENS)
    assert need().answers == need().kv_tokens * 1000
    assert need().model == BASE_BYTES + int(2.2 * 100 * MB)


def test_the_limit_holds_from_the_second_context_on() -> None:
    assert need(kv_bytes=8_000_000).kv_tokens == 8_000
    assert need(kv_bytes=1).kv_tokens == 4096 + MARGIN_TOKENS


def test_where_memory_is_short_the_context_is_shorter_too() -> None:
    short = need(free_bytes=BASE_BYTES + int(2.2 * 100 * MB) + 4_000_000)
    assert short.kv_tokens == 2_000
    assert usable_context(4096, short) == 2_000 - MARGIN_TOKENS
    assert usable_context(4096, need()) == 4096
    assert need(free_bytes=0).kv_tokens == LEAST_TOKENS + MARGIN_TOKENS


def test_a_model_of_unknown_shape_is_judged_by_its_file() -> None:
    unknown = need(token_bytes=0)
    assert (unknown.answers, unknown.kv_tokens) == (0, 0)
    assert usable_context(4096, unknown) == 4096


def test_a_load_that_is_hopeless_is_refused_with_both_numbers() -> None:
    wanted = Need(model=300 * MB, answers=100 * MB, kv_tokens=1)
    assert too_little(wanted, 400 * MB, "m") is None
    assert too_little(wanted, None, "m") is None
    refused = too_little(wanted, 399 * MB, "m")
    assert refused is not None
    assert (refused.kind, refused.code) == (Kind.OVERLOADED, "not_enough_memory")
    assert "400 MB" in refused.message
    assert "399 MB" in refused.message
    assert "local.check_memory" in refused.message


def test_the_shape_is_read_from_the_file(files: dict[str, Path], tmp_path: Path) -> None:
    """One block, one head for keys and values, 32 wide: two vectors."""
    assert token_elements(files["tiny"]) == 64
    config = {"num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 576}
    (tmp_path / "config.json").write_bytes(json.encode(config))
    assert token_elements(tmp_path) == 30 * 3 * 64 * 2
    (tmp_path / "config.json").write_bytes(json.encode({"text_config": config}))
    assert token_elements(tmp_path) == 30 * 3 * 64 * 2
    (tmp_path / "config.json").write_bytes(b"{}")
    assert token_elements(tmp_path) == 0
    assert element_bytes("CPU") < element_bytes("GPU.0")


def test_what_is_free_is_the_lesser_of_the_system_s_and_the_container_s(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000 kB\nMemAvailable:    2000 kB\n")
    assert free_bytes(meminfo, tmp_path) == 2000 * 1024
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("600000\n")
    (tmp_path / "memory.stat").write_text("anon 500000\ninactive_file 100000\n")
    assert free_bytes(meminfo, tmp_path) == 500_000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_bytes(meminfo, tmp_path) == 2000 * 1024
    assert free_bytes(tmp_path / "absent", tmp_path) is None
