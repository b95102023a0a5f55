"""What holds for every test: Hypothesis profiles.

`HYPOTHESIS_PROFILE` chooses: `dev` (the default), `ci`, `deep`. None has a deadline, which on a
shared machine measures the neighbours. A failure prints how to run it again.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "dev", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("dev"), max_examples=200, print_blob=True)
settings.register_profile("deep", settings.get_profile("dev"), max_examples=5_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
