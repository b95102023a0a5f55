"""How a vendor answers: beats of a scenario in, the frames of its wire format out."""
