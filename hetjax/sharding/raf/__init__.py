"""Relation-Aggregation-First (Heta, PVLDB 18(9) 2025): partitions aggregate the relations that they own, and combine at the seeds."""
