"""A local provider that speaks the real wire formats, scenario by scenario."""
