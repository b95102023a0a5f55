"""The command line `turnfleet`: one file per noun."""
