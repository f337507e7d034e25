"""boto3's client for a server of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import boto3
from botocore.config import Config

from tests.sdk.served import DEADLINE_S

REGION: Final = "eu-west-1"


@contextmanager
def boto(url: str, key: str = "AKIAANYTHING", prefix: str = "/bedrock") -> Iterator[Any]:
    """It asks once, and waits as long as a test may."""
    config = Config(retries={"total_max_attempts": 1}, read_timeout=DEADLINE_S)
    secrets: Any = {"aws_access_key_id": key, "aws_secret_access_key": "a-secret"}
    made = boto3.client("bedrock-runtime", endpoint_url=url + prefix, region_name=REGION, config=config, **secrets)
    try:
        yield made
    finally:
        made.close()
