"""What the dialects of Amazon Bedrock share: the words and the shapes of its failures."""
