"""What the wires that carry Anthropic's models share: signatures of reasoning, and how hard to reason."""
