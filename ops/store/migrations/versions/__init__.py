"""One module per change of the schema, in the order of their numbers."""
