"""What is installed, what the machine has, and what a graph is like: measured, each with what to do where it is wrong."""
