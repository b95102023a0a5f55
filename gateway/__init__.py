"""The gateway: takes prompts in, pushes turn requests, delivers segments in order."""
