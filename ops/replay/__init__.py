"""Failed turns again: as new turns, or offline through the worker's pure rooms."""
