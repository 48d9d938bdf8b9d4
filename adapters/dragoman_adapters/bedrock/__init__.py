"""Amazon Bedrock: Converse, and the bodies of Anthropic's models and of Nova through InvokeModel."""
