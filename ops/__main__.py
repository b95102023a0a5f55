"""`python -m ops`: the same as `turnfleet`. The supervisor starts its processes this way."""

from ops.cli.main import main

if __name__ == "__main__":
    main()
