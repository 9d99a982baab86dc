"""The results of a run: its summary, pictures and page, and what it prints at its end."""
