"""The graph: its schema, its compressed sparse columns, and the store on disk."""
