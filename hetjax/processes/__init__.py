"""Many processes as one run: how they find each other, what they tell each other, and what happens when one ends."""
