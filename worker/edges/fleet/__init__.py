"""arq as host, our queue: claim, lease, wake, drain."""
