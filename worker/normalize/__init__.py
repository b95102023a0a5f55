"""Bytes of a provider's stream to canonical events (seed 002). Pure; imports only `shared`."""
