"""The shared edges: Redis, streams, the embedded server, the local channel, Sentry."""
