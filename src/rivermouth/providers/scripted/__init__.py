"""Scripted models for tests, demos and client authors: `rivermouth serve --scripted`.  No native code, no network."""

from rivermouth.providers.scripted.provider import ScriptedProvider, ScriptedUpstream
from rivermouth.providers.scripted.script import PERSONAS, script
from rivermouth.providers.scripted.smallest import smallest
from rivermouth.providers.scripted.words import count_prompt, tokens_of

__all__ = ["PERSONAS", "ScriptedProvider", "ScriptedUpstream", "count_prompt", "script", "smallest", "tokens_of"]
