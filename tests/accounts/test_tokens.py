"""Access tokens that are ours, those that are not, and the file of the secrets."""

from __future__ import annotations

import base64
import contextlib
import json
import stat
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.accounts.keyring import FILE, LEEWAY_S, Keyring
from rivermouth.accounts.tokens import ISSUER, AccessTokens, Claim, SessionToken
from rivermouth.ir.errors import ApiError
from rivermouth.store.port import StoreError
from tests.accounts.lab import EPOCH_S, Time

CLAIM = Claim("u1", "s1")
KEY = b"k" * 32


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def keyring(tmp_path: Path, time: Time) -> Keyring:
    made = Keyring(tmp_path, time.now_s)
    made.open()
    return made


@pytest.fixture
def tokens(keyring: Keyring, time: Time) -> AccessTokens:
    return AccessTokens(keyring, time.now_s)


def refused(tokens: AccessTokens, token: str) -> None:
    with pytest.raises(ApiError) as caught:
        tokens.verify(token)
    assert (caught.value.status, caught.value.code) == (401, "invalid_token")


@pytest.mark.promise(97)
def test_a_token_names_its_user_and_its_session_until_it_runs_out(tokens: AccessTokens, time: Time) -> None:
    token = tokens.issue(CLAIM, 900.0)
    assert tokens.verify(token) == CLAIM
    time.s = EPOCH_S + 899
    assert tokens.verify(token) == CLAIM
    time.s = EPOCH_S + 900
    refused(tokens, token)


def forged(head: dict[str, Any], said: dict[str, Any], key: bytes = KEY) -> str:
    return jwt.encode(said, key, head.get("alg", "HS256"), head)


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


SAID = {"iss": ISSUER, "sub": "u1", "sid": "s1", "iat": int(EPOCH_S), "exp": int(EPOCH_S) + 900}


@pytest.mark.promise(97)
@pytest.mark.parametrize("alg", ["none", "None", "NONE", "HS384", "RS256", "ES256", "", None, 7])
def test_the_algorithm_is_not_the_tokens_to_choose(tokens: AccessTokens, keyring: Keyring, alg: Any) -> None:
    kid = keyring.signing.kid
    refused(tokens, f"{part({'alg': alg, 'typ': 'JWT', 'kid': kid})}.{part(SAID)}.")
    refused(tokens, f"{part({'alg': alg, 'typ': 'JWT', 'kid': kid})}.{part(SAID)}.{part('x')}")


def test_another_hash_with_our_own_secret_is_refused(tokens: AccessTokens, keyring: Keyring) -> None:
    key = keyring.signing
    assert tokens.verify(forged({"kid": key.kid}, SAID, key.bytes())) == CLAIM  # the forgery as such is a good one
    refused(tokens, forged({"kid": key.kid, "alg": "HS512"}, SAID, key.bytes() * 2))


def test_a_foreign_secret_is_refused_whatever_it_says_of_itself(tokens: AccessTokens, keyring: Keyring) -> None:
    for kid in (keyring.signing.kid, "", "other", "../../etc/passwd", "' OR 1=1 --"):
        refused(tokens, forged({"kid": kid}, SAID))
    refused(tokens, jwt.encode(SAID, KEY, "HS256"))
    refused(tokens, forged({"kid": keyring.signing.kid, "jwk": {"kty": "oct", "k": part("k" * 32)}}, SAID))


@pytest.mark.parametrize("lacking", list(SAID))
def test_every_claim_is_wanted(tokens: AccessTokens, keyring: Keyring, lacking: str) -> None:
    key = keyring.signing
    refused(tokens, forged({"kid": key.kid}, {k: v for k, v in SAID.items() if k != lacking}, key.bytes()))


@pytest.mark.parametrize(
    ("claim", "value"),
    [("iss", "other"), ("sub", 5), ("sid", 5), ("sid", None), ("exp", "soon"), ("exp", None), ("exp", [1]), ("exp", 1)],
)
def test_a_claim_of_another_kind_is_refused(tokens: AccessTokens, keyring: Keyring, claim: str, value: Any) -> None:
    key = keyring.signing
    body = jwt.api_jws.encode(json.dumps({**SAID, claim: value}).encode(), key.bytes(), "HS256", {"kid": key.kid})
    refused(tokens, body)


@given(data=st.data())
def test_no_changed_character_passes(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    time = Time()
    keyring = Keyring(tmp_path_factory.getbasetemp(), time.now_s)
    keyring.open()
    tokens = AccessTokens(keyring, time.now_s)
    token = tokens.issue(CLAIM, 900.0)
    at = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters())
    changed = token[:at] + other + token[at + 1 :]
    if changed[:-1] == token[:-1]:  # the last character of base64 has bits that mean nothing
        with contextlib.suppress(ApiError):
            assert tokens.verify(changed) == CLAIM
    else:
        refused(tokens, changed)


@given(st.text(max_size=200))
def test_no_text_is_a_token(text: str) -> None:
    time = Time()
    keyring = Keyring(Path("/nowhere"), time.now_s)
    refused(AccessTokens(keyring, time.now_s), text)


def test_a_huge_token_is_not_looked_at(tokens: AccessTokens) -> None:
    refused(tokens, tokens.issue(CLAIM, 900.0) + "A" * 10_000_000)


# -- the secrets


def test_the_file_is_the_owners_alone_and_the_same_at_the_next_start(tmp_path: Path, time: Time) -> None:
    keyring = Keyring(tmp_path, time.now_s)
    keyring.open()
    file = tmp_path / FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(keyring.signing.bytes()) == 32
    again = Keyring(tmp_path, time.now_s)
    again.open()
    assert again.signing == keyring.signing
    assert keyring.signing.secret.reveal() not in repr(keyring.signing)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_file_that_others_could_read_is_closed(tmp_path: Path, time: Time) -> None:
    Keyring(tmp_path, time.now_s).open()
    (tmp_path / FILE).chmod(0o644)
    Keyring(tmp_path, time.now_s).open()
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text",
    [b"", b"{}", b'{"keys":[]}', b'{"keys":[{"kid":"a","secret":"c2hvcnQ="}]}', b'{"keys":[{"kid":"a","secret":"%"}]}'],
)
def test_a_file_that_holds_no_secret_is_never_taken_for_one(tmp_path: Path, time: Time, text: bytes) -> None:
    (tmp_path / FILE).write_bytes(text)
    with pytest.raises(StoreError, match=FILE):
        Keyring(tmp_path, time.now_s).open()
    assert (tmp_path / FILE).read_bytes() == text


def test_after_a_rotation_the_old_secret_is_good_until_its_last_token_has_run_out(
    tmp_path: Path, keyring: Keyring, tokens: AccessTokens, time: Time
) -> None:
    old = tokens.issue(CLAIM, 900.0)
    kid = Keyring(tmp_path, time.now_s).rotate(keep_s=900.0)  # by another process
    assert tokens.verify(old) == CLAIM
    assert keyring.reload()
    assert not keyring.reload()
    assert keyring.signing.kid == kid
    new = tokens.issue(CLAIM, 9_000.0)
    assert tokens.verify(old) == tokens.verify(new) == CLAIM
    time.s = EPOCH_S + 900 + LEEWAY_S
    refused(tokens, old)
    assert keyring.verifying(jwt.get_unverified_header(old)["kid"]) is None
    assert tokens.verify(new) == CLAIM
    keyring.rotate(keep_s=900.0)
    assert len(json.loads((tmp_path / FILE).read_bytes())["keys"]) == 2


def test_a_rotation_can_end_every_token_at_once(keyring: Keyring, tokens: AccessTokens) -> None:
    old = tokens.issue(CLAIM, 900.0)
    keyring.rotate(keep_s=None)
    keyring.reload()
    refused(tokens, old)


# -- session tokens


def test_a_session_token_is_never_twice_the_same_and_does_not_print() -> None:
    made = {str(SessionToken.new()) for _ in range(100)}
    assert len(made) == 100
    token = SessionToken.new()
    assert SessionToken.parse(str(token)) == token
    assert token.secret not in repr(token)
    assert token.secret not in token.digest + token.session_id
    assert token.handle not in token.digest + token.session_id


def test_the_next_secret_follows_from_the_one_before_for_who_has_the_signing_secret(
    keyring: Keyring, tmp_path_factory: pytest.TempPathFactory, time: Time
) -> None:
    token = SessionToken.new()
    following = token.next(keyring)
    assert following == token.next(keyring)
    assert following.handle == token.handle
    assert len({token.secret, following.secret, following.next(keyring).secret}) == 3
    other = Keyring(tmp_path_factory.mktemp("other"), time.now_s)
    other.open()
    assert token.next(other) != following


@given(st.text(max_size=90))
def test_what_is_no_session_token(text: str) -> None:
    parsed = SessionToken.parse(text)
    assert parsed is None or str(parsed) == text
