"""Relation-Aggregation-First (Heta, PVLDB 18(9) 2025): partitions of the relations aggregate what they own, and combine at the seeds."""
