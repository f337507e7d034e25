"""Errors: the tables are total, and every way in which the service says an error is understood."""

from __future__ import annotations

import json

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel

from rivermouth.dialects.bedrock_invoke import DIALECT
from rivermouth.dialects.bedrock_invoke.failures import frame_error
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.vendors.bedrock.failures import TYPE_HEADER
from rivermouth.vendors.bedrock.words import KINDS, WORDINGS
from rivermouth.wire.frame import Frame

MODEL = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))


def test_every_kind_has_words_that_the_service_model_knows() -> None:
    operation = MODEL.operation_model("InvokeModelWithResponseStream")
    members = operation.output_shape.members["body"].members
    types = {shape.name: shape.metadata["error"]["httpStatusCode"] for shape in operation.error_shapes}
    assert set(WORDINGS) == set(Kind)
    for kind, wording in WORDINGS.items():
        assert wording.member in members, "another word would have no code"
        if kind is not Kind.AUTHENTICATION:
            assert wording.type in types
    for kind in (Kind.INVALID_REQUEST, Kind.PERMISSION, Kind.NOT_FOUND, Kind.RATE_LIMITED, Kind.TIMEOUT, Kind.UPSTREAM):
        assert WORDINGS[kind].status == types[WORDINGS[kind].type]
    assert set(types) <= set(KINDS)


@pytest.mark.parametrize("kind", Kind)
def test_the_header_names_the_exception(kind: Kind) -> None:
    failure = DIALECT.encode_error(ApiError(kind, "not today", param="topP"), "c")
    assert failure.headers == {TYPE_HEADER: WORDINGS[kind].type}
    assert json.loads(failure.body) == {"message": "topP: not today"}
    assert failure.status == WORDINGS[kind].status


def test_a_status_of_its_own_is_kept() -> None:
    assert DIALECT.encode_error(ApiError(Kind.INVALID_REQUEST, "no", status=405), "c").status == 405


@pytest.mark.parametrize(
    ("status", "headers", "body", "kind"),
    [
        (400, {"X-Amzn-ErrorType": "ThrottlingException:http://x/"}, b"{}", Kind.RATE_LIMITED),
        (400, {}, b'{"__type":"com.amazon.coral.service#AccessDeniedException"}', Kind.PERMISSION),
        (400, {}, b'{"code":"ModelNotReadyException"}', Kind.OVERLOADED),
        (403, {"x-amzn-errortype": "ExpiredTokenException"}, b'{"Message":"expired"}', Kind.AUTHENTICATION),
        (403, {}, b"", Kind.PERMISSION),
        (424, {}, b"<html>", Kind.UPSTREAM),
        (413, {"x-amzn-errortype": "ValidationException"}, b"{}", Kind.TOO_LARGE),
        (500, {"x-amzn-errortype": "SomethingNew"}, b"[]", Kind.UPSTREAM),
    ],
)
def test_every_place_of_a_type_is_read(status: int, headers: dict[str, str], body: bytes, kind: Kind) -> None:
    assert DIALECT.parse_error(status, headers, body).kind is kind


@pytest.mark.fault("F11")
@pytest.mark.parametrize("kind", Kind)
def test_a_failure_is_read_in_either_framing(kind: Kind) -> None:
    member = WORDINGS[kind].member
    said = {"message": "it broke"}
    named = Frame(f"exception:{member}", json.dumps(said).encode())
    plain = Frame("", json.dumps({member: said}).encode())
    want = KINDS[member[0].upper() + member[1:]]
    for frame in (named, plain):
        error = frame_error(frame)
        assert error is not None
        assert (error.kind, error.message) == (want, "it broke")


def test_an_error_that_is_not_modelled_is_an_error_all_the_same() -> None:
    error = frame_error(Frame("error:NewFailure", b'{"message":"it broke"}'))
    assert error == ApiError(Kind.UPSTREAM, "it broke")
    assert frame_error(Frame("exception:", b"junk")) is not None


def test_text_that_speaks_of_exceptions_is_text() -> None:
    text = json.dumps({"outputText": '{"throttlingException":{"message":"x"}}'}).encode()
    assert frame_error(Frame("", text)) is None
    assert frame_error(Frame("", b'{"myException":{}}')) is None
