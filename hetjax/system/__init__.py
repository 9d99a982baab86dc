"""The machine and its libraries: errors, logging, durable files, memory, threads, and private parts of libraries."""
