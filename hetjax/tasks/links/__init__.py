"""The parts of link prediction: scores of pairs, losses, negatives, and ranks among candidates; they know no engine."""
