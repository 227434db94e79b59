"""The report of a week, made from the tables of its days without Spark."""
