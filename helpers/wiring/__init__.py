"""What the drafter is fed, what it was trained on, and how the two differ."""
