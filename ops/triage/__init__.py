"""Questions about failures: which, how many, whose, what mends them."""
