"""The fronts behind the gateway's delivery port: Discord, and the local channel."""
