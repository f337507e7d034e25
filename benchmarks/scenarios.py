"""The loads, as data, and the running of one: load generator in, one JSON line out."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from targets import HERE, NAMELESS_MODEL, Target, pin

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Scenario:
    """One load.  model: the upstream's knobs.  options: the load generator's.  formats: which clients it is run with.

    fresh: each client meets a process of its own, because what is measured is how its memory grows.
    beside: the client that each other one is compared with, by a run of its own just before: a machine that has other
    things to do is as slow for the one as for the other.
    rounds: how often it is run, each client at each target in turns.
    by: the figure that tells which round the machine disturbed least, as all that disturbs makes it greater.
    direct: whether the load generator is run without a gateway too, to see what it can do at most.
    """

    title: str
    model: str
    options: dict[str, float]
    formats: tuple[str, ...]
    fresh: bool = False
    beside: str | None = None
    rounds: int = 1
    by: Callable[[Measured], float] = attrgetter("us_per_chunk")
    direct: bool = True

    def scaled(self, factor: float) -> dict[str, float]:
        return {name: value * factor if name == "dur" else value for name, value in self.options.items()}


CLIENTS = ("openai", "anthropic", "ollama")
DIALECTS = (*CLIENTS, "gemini", "cohere_v2", "cohere_v1", "tgi", "bedrock")

SCENARIOS: dict[str, Scenario] = {
    "A": Scenario("one stream, 5 ms apart", "bench-n200-i5", {"conns": 1, "n": 200, "warm": 1.5, "dur": 4}, CLIENTS),
    "B": Scenario(
        "64 streams at saturation, in turns with anthropic's client",
        NAMELESS_MODEL,
        {"conns": 64, "n": 200, "warm": 0.3, "dur": 0.6},
        DIALECTS,
        beside="anthropic",
        rounds=7,
    ),
    "R": Scenario(
        "64 resumable streams at saturation, in turns with plain ones",
        NAMELESS_MODEL,
        {"conns": 64, "n": 200, "warm": 0.3, "dur": 0.6},
        ("resumable",),
        beside="openai",
        rounds=7,
    ),
    "C": Scenario(
        "1000 streams, 20 chunks/s each",
        "bench-n400-i50",
        {"conns": 1000, "n": 400, "ramp": 3000, "warm": 5, "dur": 12, "grace": 0},
        CLIENTS,
        rounds=5,
        by=attrgetter("p99_ms"),
        direct=False,
    ),
    "D": Scenario(
        "non-streaming replies",
        "bench-n20",
        {"conns": 16, "n": 20, "warm": 0.5, "dur": 1.2},
        ("json",),
        rounds=9,
        by=attrgetter("us_per_call"),
        direct=False,
    ),
    "memory": Scenario(
        "1000 idle streams",
        "bench-n100-i20000",
        {"conns": 1000, "n": 100, "ramp": 3000, "warm": 5, "dur": 2, "grace": 0},
        CLIENTS,
        fresh=True,
    ),
    "close": Scenario(
        "clients that leave after 5 chunks, 50 ms apart",
        "bench-n200-i50",
        {"conns": 16, "n": 200, "abort": 5, "warm": 0.2, "dur": 3},
        CLIENTS,
    ),
    "slow": Scenario(
        "8 readers of 200 KB/s, an upstream that would send 40 MB at once",
        "bench-n100000-s200",
        {"conns": 8, "n": 100_000, "s": 200, "slow": 200_000, "warm": 1, "dur": 5, "grace": 0},
        CLIENTS,
        fresh=True,
    ),
}

WARM_UP = Scenario(
    "before anything is measured", NAMELESS_MODEL, {"conns": 16, "n": 200, "warm": 0.2, "dur": 0.5}, DIALECTS
)


@dataclass(frozen=True)
class Measured:
    """One scenario, one client format, one target.

    upstream: how its statistics grew meanwhile.  beside: what the client that it is compared with had just before.
    others: the other rounds.
    """

    scenario: str
    format: str
    target: str
    result: Result
    upstream: Mapping[str, int] = field(default_factory=dict)
    beside: Result | None = None
    others: tuple[Measured, ...] = ()

    @property
    def rounds(self) -> tuple[Measured, ...]:
        return (self, *self.others)

    def median(self, figure: Callable[[Measured], float]) -> float:
        """Over all rounds."""
        return statistics.median_high(figure(m) for m in self.rounds)

    @property
    def errors(self) -> int:
        """Streams that were not exactly right, in any of the rounds."""
        return sum(r["errors"] for m in self.rounds for r in (m.result, m.beside) if r is not None)

    @property
    def p99_ms(self) -> float:
        """One-way, of a chunk."""
        return float(self.result["lat_us"]["p99"]) / 1000

    @property
    def us_per_call(self) -> float:
        """CPU of the gateway."""
        return float(self.result["gw_us_per_stream"])

    @property
    def us_per_chunk(self) -> float:
        """CPU of the gateway."""
        return float(self.result["gw_us_per_chunk"])

    @property
    def of_beside(self) -> float:
        """CPU per chunk as a multiple of what `beside` had in the same round, the median of all rounds.

        1 where there was nothing to compare with.
        """
        return self.median(lambda m: m.us_per_chunk / m.beside["gw_us_per_chunk"] if m.beside else 1.0)


def least_disturbed(rounds: Iterable[Measured], figure: Callable[[Measured], float]) -> Measured:
    """The round with the least figure, and of equal ones (there is no gateway) the fastest; the others go with it."""
    best, *others = sorted(rounds, key=lambda m: (figure(m), -m.result["chunks_s"]))
    return replace(best, others=tuple(others))


def command(target: Target, scenario: Scenario, client: str, factor: float) -> list[str]:
    way, model = target.ways[client], target.model.format(scenario.model)
    options = {
        "port": target.port,
        "path": way.to(model),
        "fmt": way.speaks or client,
        "model": model,
        **scenario.scaled(factor),
    }
    words = [f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in options.items()]
    words += [f"h={header}" for header in way.headers]
    words += [f"pids={','.join(map(str, target.pids))}"] if target.pids else []
    return [str(HERE / "loadgen"), *words]


def load(target: Target, scenario: Scenario, client: str, core: int | None, factor: float) -> Result:
    """Run the load; raises when the load generator says nothing."""
    done = subprocess.run(
        command(target, scenario, client, factor), capture_output=True, text=True, preexec_fn=pin(core), check=False
    )
    if not done.stdout:
        raise RuntimeError(f"loadgen failed: {done.stderr}")
    result: Result = json.loads(done.stdout)
    return result
