"""Where the worker touches the world: HTTP, Redis, tools."""
