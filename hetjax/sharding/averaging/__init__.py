"""Model averaging (CATGNN): every partition trains a model of its own, and after some epochs their parameters are averaged."""
