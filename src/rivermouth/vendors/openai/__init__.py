"""OpenAI: three protocols (chat, responses, completions) with the same errors, limits and kinds of tools."""
