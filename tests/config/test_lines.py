"""Every key of a TOML document is found on its line."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from rivermouth.config.lines import key_lines

DOCUMENT = '''\
# a comment with [brackets] and = signs
top = 1

[server]  # trailing
host = "a # not a comment"
keys = [
  "one",   # the first
  'two',
]
[providers."lab.eu".timeouts]
first_token_s = 20
[endpoints.x]
price = { input = 2.5, output = 10.0 }
text = """
[not.a.table]
key = 1
"""
raw = \'\'\'
x = "\'\'\'
after.deep.er = true
[[list]]
a = 1
[[list]]
a = [{ b = 1 }, { b = 2 }]
[list.sub]
c = 1979-05-27T07:32:00Z
'''


def test_each_kind_of_key_is_on_its_line():
    lines = key_lines(DOCUMENT)
    want = {
        ("top",): 2,
        ("server",): 4,
        ("server", "host"): 5,
        ("server", "keys"): 6,
        ("server", "keys", 0): 7,
        ("server", "keys", 1): 8,
        ("providers",): 10,
        ("providers", "lab.eu"): 10,
        ("providers", "lab.eu", "timeouts", "first_token_s"): 11,
        ("endpoints", "x", "price", "output"): 13,
        ("endpoints", "x", "text"): 14,
        ("endpoints", "x", "raw"): 18,
        ("endpoints", "x", "after", "deep", "er"): 20,
        ("list", 0): 21,
        ("list", 0, "a"): 22,
        ("list", 1): 23,
        ("list", 1, "a", 0, "b"): 24,
        ("list", 1, "a", 1, "b"): 24,
        ("list", 1, "sub", "c"): 26,
    }
    assert {path: lines.get(path) for path in want} == want


def paths_of(value, path=()):
    """Every key path in a parsed document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        yield (*path, key)
        yield from paths_of(below, (*path, key))


def test_no_key_is_missed_and_none_invented():
    assert set(key_lines(DOCUMENT)) == set(paths_of(tomllib.loads(DOCUMENT)))


KEYS = st.text(alphabet='ab.-_ "=[]#é\\', min_size=1, max_size=4)
SCALARS = st.one_of(st.integers(-9, 9), st.booleans(), st.text(alphabet="x\"'#=[]{},\\\n", max_size=6))
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=6)


def toml_of(value) -> str:
    """An inline TOML value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, list):
        return "[" + ", # why, [not]\n".join(toml_of(v) for v in value) + "\n]"
    return "{ " + ", ".join(f"{toml_of(k)} = {toml_of(v)}" for k, v in value.items()) + " }"


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=3), max_size=3))
def test_any_document_is_walked_whole(tree):
    text = "".join(
        f"[{toml_of(name)}]\n" + "".join(f"{toml_of(k)} = {toml_of(v)}\n" for k, v in table.items())
        for name, table in tree.items()
    )
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # an array spread over lines inside an inline table
        return
    assert set(key_lines(text)) == set(paths_of(parsed))
